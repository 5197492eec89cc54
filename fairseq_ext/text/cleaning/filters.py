"""Interface of filters, which give a reason to drop each pair or None; and filters by length, words and encoding."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Literal

from ftfy.badness import is_bad
from pydantic import Field

from fairseq_ext.base.errors import InputError
from fairseq_ext.base.sections import Number, Section
from fairseq_ext.text.folded_text import BLANK
from fairseq_ext.text.languages import has_spaces
from fairseq_ext.text.text_files import Pair

SIDES = ("source", "target")


@dataclass(frozen=True)
class Batch:
    """A block of pairs with collapsed white space, and the folder of statistics learned from the corpora."""

    pairs: Sequence[Pair]
    langs: tuple[str, str]
    learned: Path | None = None

    def texts(self, side: int) -> list[str]:
        """Return one side of all pairs."""
        return [pair[side] for pair in self.pairs]


class Filter(Section):
    """Base class of filters: a section of an experiment file with the filter's options."""

    def check(self, langs: tuple[str, str]) -> None:
        """Raise InputError if the filter does not support these languages."""

    def reasons(self, batch: Batch) -> Iterable[str | None]:
        """Return a short reason to drop each pair, or None to keep it. The source's reason takes precedence."""
        sides = (self.side_reasons(batch, side) for side in (0, 1))
        return [one or other for one, other in zip(*sides, strict=True)]

    def side_reasons(self, batch: Batch, side: int) -> Iterable[str | None]:
        """Return the reasons for one side; implemented by filters that check each side separately."""
        raise NotImplementedError


def run_filters(filters: Mapping[str, Filter], batch: Batch) -> tuple[list[int], dict[int, tuple[str, str]]]:
    """Run filters in sequence, each on the pairs accepted by the previous ones.

    Returns the rows of accepted pairs and, by row, the filter name and reason of rejected pairs.
    """
    pairs = batch.pairs
    rows, rejected = list(range(len(pairs))), {}
    for name, each in filters.items():
        accepted = []
        for row, reason in zip(rows, each.reasons(batch), strict=True):
            if reason is None:
                accepted.append(row)
            else:
                rejected[row] = (name, reason)
        if len(accepted) < len(rows):
            rows, batch = accepted, replace(batch, pairs=[pairs[row] for row in accepted])
    return rows, rejected


def count_words(text: str) -> int:
    """Return the number of words of a text, which are separated by single spaces."""
    return text.count(" ") + bool(text)  # faster than splitting


class Empty(Filter):
    """Drops pairs with a side that is empty or has only invisible characters."""

    def side_reasons(self, batch: Batch, side: int) -> Iterator[str | None]:
        return (f"no {SIDES[side]} text" if BLANK.fullmatch(text) else None for text in batch.texts(side))


class Length(Filter):
    """Drops pairs with a side that is too short or too long."""

    min_words: Annotated[int, Field(ge=0)] = 1
    """Minimum number of words per side."""
    max_words: Annotated[int, Field(ge=1)] = 100
    """Maximum number of words per side; 100 words are about 150 subwords. In languages without spaces a sentence counts
    as one word, so that only ``max_characters`` limits it."""
    max_characters: Annotated[int, Field(ge=1)] = 1000
    """Maximum number of characters per side."""

    def side_reasons(self, batch: Batch, side: int) -> Iterator[str | None]:
        for text in batch.texts(side):
            words = count_words(text)
            if not self.min_words <= words <= self.max_words:
                yield f"{words} {SIDES[side]} words"
            else:
                yield f"{len(text)} {SIDES[side]} characters" if len(text) > self.max_characters else None


class LengthRatio(Filter):
    """Drops pairs with a side that is many times as long as the other.

    Short pairs pass: a single term is often explained in several words, and a verb form in one language may be a phrase
    in the other (*Choledochoenterostomy*, *Przesłodziłaś*).
    """

    max_ratio: Annotated[Number, Field(ge=1)] = 3.0
    """Maximum ratio of the longer to the shorter side."""
    unit: Literal["words", "characters"] = "words"
    """``words`` or ``characters``. Both distinguish translations from random pairs about equally well, but ``words``
    requires languages with spaces between words."""
    exempt: Annotated[int, Field(ge=0)] = 7
    """Pairs pass if their longer side has at most this length in ``unit``; for characters, 40 is suitable."""

    def check(self, langs: tuple[str, str]) -> None:
        for lang in langs if self.unit == "words" else ():
            if not has_spaces(lang):
                raise InputError(
                    f"length_ratio: unit: {lang} is written without spaces between words; set unit: characters, and "
                    "max_ratio and exempt for these languages"
                )

    def reasons(self, batch: Batch) -> Iterator[str | None]:
        length = len if self.unit == "characters" else count_words
        for pair in batch.pairs:
            one, other = map(length, pair)
            longer, shorter = max(one, other), min(one, other)
            is_kept = longer <= self.exempt or longer <= self.max_ratio * shorter
            yield None if is_kept else f"{one} {self.unit} to {other}"


class LongWord(Filter):
    """Drops pairs with a very long word: binary data, missing spaces, paths.

    Web addresses and languages without spaces between words are ignored.
    """

    max_characters: Annotated[int, Field(ge=1, le=1_000_000)] = 40
    """Maximum number of characters of a word."""

    def side_reasons(self, batch: Batch, side: int) -> Iterator[str | None]:
        has_long_word = re.compile(rf"[^ ]{{{self.max_characters + 1}}}").search
        is_looked_at = has_spaces(batch.langs[side])
        for text in batch.texts(side):
            longest = 0
            if is_looked_at and has_long_word(text):
                longest = max((len(word) for word in text.split() if "://" not in word), default=0)
            yield f"a {SIDES[side]} word of {longest} characters" if longest > self.max_characters else None


class Identical(Filter):
    """Drops untranslated pairs: both sides are equal except for case, digits and punctuation."""

    exempt_words: Annotated[int, Field(ge=0)] = 2
    """Pairs with at most this many words per side pass: names, commands and loan words are the same in many
    languages."""

    def reasons(self, batch: Batch) -> Iterator[str | None]:
        for pair in batch.pairs:
            is_long = max(map(count_words, pair)) > self.exempt_words
            yield "both sides are equal" if is_long and _has_equal_letters(*pair) else None


_LETTER = re.compile(r"[^\W\d_]")
_NO_LETTERS = re.compile(r"[\W\d_]+")


def _has_equal_letters(one: str, other: str) -> bool:
    one, other = one.casefold(), other.casefold()
    # Fast path: mostly the first letters differ.
    first, second = _LETTER.search(one), _LETTER.search(other)
    if first is None or second is None or first[0] != second[0]:
        return False
    return _NO_LETTERS.sub("", one) == _NO_LETTERS.sub("", other)


# ftfy detects combinations of characters. It misses many if UTF-8 was read as Latin-1, whose control characters become
# spaces on import, and knows few of Windows-1250. In these cases the first of two bytes is left as a capital letter
# inside a word, where almost no language has one.
_CAPITAL_INSIDE = re.compile(r"[a-zß-öø-ÿ][ÂÃÄÅĂĹ]").search
# A fast test: everything that ftfy detects has two consecutive characters outside ASCII, or one of these.
_MAYBE = re.compile(r"[^\x00-\x7f]{2}|[\x80-\x9fÂÃŒœ]").search
# Opening marks of »Übersicht« (German) and ”Är” (Swedish). For ftfy they are closing marks, not followed by capitals.
_OPENING = re.compile(r"(?<!\S)[»”›]")


class Encoding(Filter):
    """Drops pairs with a side whose UTF-8 was decoded as Latin-1, Windows-1252 or similar (*mojibake*).

    ASCII text always passes.
    """

    def side_reasons(self, batch: Batch, side: int) -> Iterator[str | None]:
        wrong = f"the {SIDES[side]} was decoded with a wrong encoding"
        return (wrong if is_misread(text) else None for text in batch.texts(side))


def is_misread(text: str) -> bool:
    """Return whether a text looks like UTF-8 decoded with another encoding."""
    if text.isascii():
        return False
    return bool(_CAPITAL_INSIDE(text) or (_MAYBE(text) and is_bad(_OPENING.sub(" ", text))))
