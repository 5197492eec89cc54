"""What a filter is: of every pair it says why it is dropped, or nothing. And those of lengths, words and encodings."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Literal

from ftfy.badness import is_bad
from pydantic import Field

from fairseq_ext.corpora.folded_text import BLANK
from fairseq_ext.corpora.languages import has_spaces
from fairseq_ext.corpora.text_files import Pair
from fairseq_ext.inputs.errors import InputError
from fairseq_ext.inputs.models import Number, Section

SIDES = ("source", "target")


@dataclass(frozen=True)
class Batch:
    """Some thousand pairs, white space collapsed, and the folder of what filters have learned from the corpora."""

    pairs: Sequence[Pair]
    langs: tuple[str, str]
    learned: Path | None = None

    def texts(self, side: int) -> list[str]:
        """One side of the pairs."""
        return [pair[side] for pair in self.pairs]


class Filter(Section):
    """A section of an experiment file: its fields are the options of the filter."""

    def check(self, langs: tuple[str, str]) -> None:
        """Raise InputError if the filter cannot judge these languages."""

    def reasons(self, batch: Batch) -> Iterable[str | None]:
        """Why each pair is dropped, in a few words; None where it is kept. The source's reason comes first."""
        sides = (self.side_reasons(batch, side) for side in (0, 1))
        return [one or other for one, other in zip(*sides, strict=True)]

    def side_reasons(self, batch: Batch, side: int) -> Iterable[str | None]:
        """The same of a filter that looks at each side by itself."""
        raise NotImplementedError


def run_filters(filters: Mapping[str, Filter], batch: Batch) -> tuple[list[int], dict[int, tuple[str, str]]]:
    """Run filters one after the other, each on the pairs that the ones before it accepted.

    Returns the rows of the accepted pairs; of the others, by row, the name of the filter and its reason.
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
    """The words of a text, which single spaces separate."""
    return text.count(" ") + bool(text)  # faster than splitting


class Empty(Filter):
    """Drops pairs with a side that has no text, or none but invisible characters."""

    def side_reasons(self, batch: Batch, side: int) -> Iterator[str | None]:
        return (f"no {SIDES[side]} text" if BLANK.fullmatch(text) else None for text in batch.texts(side))


class Length(Filter):
    """Drops pairs with a side that is too short or too long."""

    min_words: Annotated[int, Field(ge=0)] = 1
    """Least number of words of a side."""
    max_words: Annotated[int, Field(ge=1)] = 100
    """Largest; 100 words are about 150 subwords. Where words are not separated by spaces, all of a sentence counts
    as one, and only the characters limit it."""
    max_characters: Annotated[int, Field(ge=1)] = 1000
    """Largest number of characters of a side."""

    def side_reasons(self, batch: Batch, side: int) -> Iterator[str | None]:
        for text in batch.texts(side):
            words = count_words(text)
            if not self.min_words <= words <= self.max_words:
                yield f"{words} {SIDES[side]} words"
            else:
                yield f"{len(text)} {SIDES[side]} characters" if len(text) > self.max_characters else None


class LengthRatio(Filter):
    """Drops pairs of which one side is many times as long as the other.

    Short pairs pass: a term of one word is often explained in several, and a verb form of one language
    may be a phrase of the other (*Choledochoenterostomy*, *Przesłodziłaś*).
    """

    max_ratio: Annotated[Number, Field(ge=1)] = 3.0
    """How many times as long the longer side may be."""
    unit: Literal["words", "characters"] = "words"
    """``words`` or ``characters``. Both tell translations from chance pairs about equally well, but words need
    languages that separate them by spaces."""
    exempt: Annotated[int, Field(ge=0)] = 7
    """Longest side, in this unit, of pairs that pass anyway; for characters, 40 suits."""

    def check(self, langs: tuple[str, str]) -> None:
        for lang in langs if self.unit == "words" else ():
            if not has_spaces(lang):
                raise InputError(
                    f"length_ratio: unit: {lang} has no spaces between words; give unit: characters, and a "
                    "max_ratio and exempt that suit these languages"
                )

    def reasons(self, batch: Batch) -> Iterator[str | None]:
        length = len if self.unit == "characters" else count_words
        for pair in batch.pairs:
            one, other = map(length, pair)
            longer, shorter = max(one, other), min(one, other)
            is_kept = longer <= self.exempt or longer <= self.max_ratio * shorter
            yield None if is_kept else f"{one} {self.unit} to {other}"


class LongWord(Filter):
    """Drops pairs with a word that is too long for one: binary data, lost spaces, paths.

    Web addresses pass, and languages without spaces between words are not looked at.
    """

    max_characters: Annotated[int, Field(ge=1, le=1_000_000)] = 40
    """Of the longest word allowed."""

    def side_reasons(self, batch: Batch, side: int) -> Iterator[str | None]:
        has_long_word = re.compile(rf"[^ ]{{{self.max_characters + 1}}}").search
        is_looked_at = has_spaces(batch.langs[side])
        for text in batch.texts(side):
            longest = 0
            if is_looked_at and has_long_word(text):
                longest = max((len(word) for word in text.split() if "://" not in word), default=0)
            yield f"a {SIDES[side]} word of {longest} characters" if longest > self.max_characters else None


class Identical(Filter):
    """Drops pairs whose sides are equal but for case, digits and punctuation: they are not translated."""

    exempt_words: Annotated[int, Field(ge=0)] = 2
    """Pairs whose sides have at most so many words pass: names, commands and loan words are the same in many
    languages."""

    def reasons(self, batch: Batch) -> Iterator[str | None]:
        for pair in batch.pairs:
            is_long = max(map(count_words, pair)) > self.exempt_words
            yield "both sides are equal" if is_long and _has_equal_letters(*pair) else None


_LETTER = re.compile(r"[^\W\d_]")
_NO_LETTERS = re.compile(r"[\W\d_]+")


def _has_equal_letters(one: str, other: str) -> bool:
    one, other = one.casefold(), other.casefold()
    # Mostly the first letters differ already, and the rest need not be looked at.
    first, second = _LETTER.search(one), _LETTER.search(other)
    if first is None or second is None or first[0] != second[0]:
        return False
    return _NO_LETTERS.sub("", one) == _NO_LETTERS.sub("", other)


# ftfy looks at combinations of characters. Half of them are gone where UTF-8 was read as Latin-1, whose control
# characters become spaces on import, and it knows few of Windows-1250. What is left is the first byte of two as a
# capital inside a word, where next to no language has one.
_CAPITAL_INSIDE = re.compile(r"[a-zß-öø-ÿ][ÂÃÄÅĂĹ]").search
# All that ftfy looks for has two characters in a row that are not ASCII, or one of these; finding that out is quicker.
_MAYBE = re.compile(r"[^\x00-\x7f]{2}|[\x80-\x9fÂÃŒœ]").search
# »Übersicht« in German, ”Är” in Swedish: closing quotation marks elsewhere, behind which ftfy expects no capital.
_OPENING = re.compile(r"(?<!\S)[»”›]")


class Encoding(Filter):
    """Drops pairs with a side whose UTF-8 was read as Latin-1, Windows-1252 or the like (*mojibake*).

    Text without accents is not touched.
    """

    def side_reasons(self, batch: Batch, side: int) -> Iterator[str | None]:
        wrong = f"the {SIDES[side]} was read in another encoding than its own"
        return (wrong if is_misread(text) else None for text in batch.texts(side))


def is_misread(text: str) -> bool:
    """Whether a text looks like UTF-8 read as something else."""
    if text.isascii():
        return False
    return bool(_CAPITAL_INSIDE(text) or (_MAYBE(text) and is_bad(_OPENING.sub(" ", text))))
