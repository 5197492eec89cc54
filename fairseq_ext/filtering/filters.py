"""Filters that look at lengths and letters. Their options are the keys under ``clean: filters: NAME:``."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from fairseq_ext.corpora.folded_text import BLANK
from fairseq_ext.corpora.languages import has_spaces
from fairseq_ext.filtering.batch import Batch, Reasons
from fairseq_ext.filtering.character_counts import count_kinds, is_script
from fairseq_ext.filtering.limits import check_limit
from fairseq_ext.filtering.markup import strip_markup
from fairseq_ext.filtering.writing_systems import scripts_of
from fairseq_ext.inputs.errors import InputError

_SIDES = ("source", "target")
_LONGEST_WORD = 1_000_000  # characters; a regular expression can count to some more


@dataclass(frozen=True)
class Empty:
    """Drops pairs with a side that has no text, or none but invisible characters."""

    def reasons(self, batch: Batch) -> Reasons:
        """See :data:`~fairseq_ext.filtering.batch.Reasons`."""
        is_blank = BLANK.fullmatch
        return [
            f"no {_SIDES[not is_blank(one)]} text" if is_blank(one) or is_blank(other) else None
            for one, other in batch.pairs
        ]


@dataclass(frozen=True)
class Length:
    """Drops pairs with a side that is too short or too long.

    Attributes:
        min_words: least number of words of a side.
        max_words: largest; 100 words are about 150 subwords. Where words are not separated by spaces, all of
            a sentence counts as one, and only the characters limit it.
        max_characters: largest number of characters of a side.
    """

    min_words: int = 1
    max_words: int = 100
    max_characters: int = 1000

    def __post_init__(self) -> None:
        check_limit("min_words", self.min_words, 0)
        check_limit("max_words", self.max_words, max(self.min_words, 1))
        check_limit("max_characters", self.max_characters, 1)

    def reasons(self, batch: Batch) -> Reasons:
        """See :data:`~fairseq_ext.filtering.batch.Reasons`."""
        reasons: Reasons = [None] * len(batch)
        is_long = [len(one) > self.max_characters or len(other) > self.max_characters for one, other in batch.pairs]
        words = batch.num_words
        is_outside = ((words < self.min_words) | (words > self.max_words)).any(axis=1)
        for row in np.flatnonzero(is_outside | np.array(is_long, dtype=bool)).tolist():
            reasons[row] = self._reason(batch.pairs[row], words[row].tolist())
        return reasons

    def _reason(self, pair: Sequence[str], num_words: Sequence[int]) -> str | None:
        for side, text, words in zip(_SIDES, pair, num_words, strict=True):
            if not self.min_words <= words <= self.max_words:
                return f"{words} {side} words"
            if len(text) > self.max_characters:
                return f"{len(text)} {side} characters"
        return None


@dataclass(frozen=True)
class LengthRatio:
    """Drops pairs of which one side is many times as long as the other.

    Short pairs pass: a term of one word is often explained in several, and a verb form of one language
    may be a phrase of the other (*Choledochoenterostomy*, *Przesłodziłaś*).

    Attributes:
        max_ratio: how many times as long the longer side may be.
        unit: ``words`` or ``characters``. Both tell translations from chance pairs about equally well, but
            words need languages that separate them by spaces.
        exempt: longest side, in this unit, of pairs that pass anyway; for characters, 40 suits.
    """

    max_ratio: float = 3.0
    unit: str = "words"
    exempt: int = 7

    def __post_init__(self) -> None:
        check_limit("max_ratio", self.max_ratio, 1)
        check_limit("exempt", self.exempt, 0)
        if self.unit not in ("words", "characters"):
            raise InputError(f"unit: {self.unit!r} is not known; allowed are words and characters")

    def reasons(self, batch: Batch) -> Reasons:
        """See :data:`~fairseq_ext.filtering.batch.Reasons`.

        Raises:
            InputError: if words are to be counted in a language without spaces between them.
        """
        reasons: Reasons = [None] * len(batch)
        sizes = self._sizes(batch)
        shorter, longer = sizes.min(axis=1), sizes.max(axis=1)
        is_unlike = (longer > self.max_ratio * shorter) & (longer > self.exempt)
        for row in np.flatnonzero(is_unlike).tolist():
            reasons[row] = f"{sizes[row, 0]} {self.unit} to {sizes[row, 1]}"
        return reasons

    def _sizes(self, batch: Batch) -> np.ndarray:
        """Length of each side in our unit. Shape: N×2."""
        if self.unit == "characters":
            return np.array([(len(one), len(other)) for one, other in batch.pairs], dtype=np.int64).reshape(-1, 2)
        for lang in batch.langs:
            if not has_spaces(lang):
                raise InputError(
                    f"length_ratio: unit: {lang} has no spaces between words; give unit: characters, and a "
                    "max_ratio and exempt that suit these languages"
                )
        return batch.num_words


@dataclass(frozen=True)
class LongWord:
    """Drops pairs with a word that is too long for one: binary data, lost spaces, paths.

    Web addresses pass, and languages without spaces between words are not looked at.

    Attributes:
        max_characters: of the longest word allowed.
    """

    max_characters: int = 40

    def __post_init__(self) -> None:
        check_limit("max_characters", self.max_characters, 1, _LONGEST_WORD)

    def reasons(self, batch: Batch) -> Reasons:
        """See :data:`~fairseq_ext.filtering.batch.Reasons`."""
        reasons: Reasons = [None] * len(batch)
        is_suspect = re.compile(rf"[^ ]{{{self.max_characters + 1}}}").search
        for side in (1, 0):
            if not has_spaces(batch.langs[side]):
                continue
            for row, pair in enumerate(batch.pairs):
                if is_suspect(pair[side]) and (length := _longest_word(pair[side])) > self.max_characters:
                    reasons[row] = f"a {_SIDES[side]} word of {length} characters"
        return reasons


def _longest_word(text: str) -> int:
    return max((len(word) for word in text.split() if "://" not in word), default=0)


@dataclass(frozen=True)
class Identical:
    """Drops pairs whose sides are equal but for case, digits and punctuation: they are not translated.

    Attributes:
        exempt_words: pairs whose sides have at most so many words pass: names, commands and loan words are the
            same in many languages.
    """

    exempt_words: int = 2

    def __post_init__(self) -> None:
        check_limit("exempt_words", self.exempt_words, 0)

    def reasons(self, batch: Batch) -> Reasons:
        """See :data:`~fairseq_ext.filtering.batch.Reasons`."""
        reasons: Reasons = [None] * len(batch)
        for row in np.flatnonzero(batch.num_words.max(axis=1) > self.exempt_words).tolist():
            if _has_equal_letters(*batch.pairs[row]):
                reasons[row] = "both sides are equal"
        return reasons


_LETTER = re.compile(r"[^\W\d_]")
_NO_LETTERS = re.compile(r"[\W\d_]+")


def _has_equal_letters(one: str, other: str) -> bool:
    one, other = one.casefold(), other.casefold()
    # Mostly the first letters differ already, and the rest need not be looked at.
    first, second = _LETTER.search(one), _LETTER.search(other)
    if first is None or second is None or first[0] != second[0]:
        return False
    return _NO_LETTERS.sub("", one) == _NO_LETTERS.sub("", other)


@dataclass(frozen=True)
class Characters:
    """Drops pairs with a side that is hardly text, or text in another script than its language's.

    Attributes:
        min_share: least share of a side's letters that belong to its language's scripts. Text in another
            script has next to none, while a sentence of a manual, full of names and commands in Latin, may
            well have half. If there are too few, addresses, tags and placeholders, which are Latin
            anywhere, are left out and the rest is counted again.
        min_letters: least share of letters among the characters of a side, spaces not counted. By default
            ``%1 (Disc %2)`` and ``It is 7:30.`` pass, but not rulers, tables of numbers and ``%1$d%%``.
        source_scripts: Unicode names of the source language's scripts, such as ``[Cyrillic, Latin]``; known
            for most languages.
        target_scripts: the same for the target language.
    """

    min_share: float = 0.3
    min_letters: float = 0.3
    source_scripts: list[str] | None = None
    target_scripts: list[str] | None = None

    def __post_init__(self) -> None:
        check_limit("min_share", self.min_share, 0, 1)
        check_limit("min_letters", self.min_letters, 0, 1)
        for key, scripts in (("source_scripts", self.source_scripts), ("target_scripts", self.target_scripts)):
            for script in scripts or ():
                if not is_script(script):
                    raise InputError(f"{key}: {script!r} is no script of Unicode; give names like Latin or Cyrillic")

    def reasons(self, batch: Batch) -> Reasons:
        """See :data:`~fairseq_ext.filtering.batch.Reasons`.

        Raises:
            InputError: if the scripts of a language are not known and not given.
        """
        reasons: Reasons = [None] * len(batch)
        given = (self.source_scripts, self.target_scripts)
        scripts = [tuple(given[side] or scripts_of(batch.langs[side], f"{_SIDES[side]}_scripts")) for side in (0, 1)]
        for side in (1, 0):
            for row, reason in self._judge([pair[side] for pair in batch.pairs], scripts[side], _SIDES[side]):
                reasons[row] = reason
        return reasons

    def _judge(self, texts: Sequence[str], scripts: tuple[str, ...], side: str) -> Iterator[tuple[int, str]]:
        """Yield the rows of texts that are to be dropped, and why."""
        other, foreign, expected = count_kinds(texts, scripts)
        letters = foreign + expected
        for row in np.flatnonzero(letters < self.min_letters * (letters + other)).tolist():
            yield row, f"{_percent(letters[row], letters[row] + other[row])} of the {side} is letters"
        suspects = np.flatnonzero(expected < self.min_share * letters).tolist()
        _, foreign, expected = count_kinds([strip_markup(texts[row]) for row in suspects], scripts)
        letters = foreign + expected
        for index in np.flatnonzero(expected < self.min_share * letters).tolist():
            share = _percent(expected[index], letters[index])
            yield suspects[index], f"{share} of the {side}'s letters are {' or '.join(scripts)}"


def _percent(part: int, whole: int) -> str:
    return f"{100 * part // whole}%"
