"""The filter of letters and their scripts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Annotated

import numpy as np
import regex
from pydantic import Field

from fairseq_ext.filtering.filter import SIDES, Batch, Filter
from fairseq_ext.filtering.markup import strip_markup
from fairseq_ext.filtering.writing_systems import scripts_of
from fairseq_ext.inputs.errors import InputError

# Of one side: letters of the language's scripts, letters, and characters without spaces; and the first two again
# without markup, if letters of other scripts are many.
_Counts = tuple[int, int, int, int, int]


@dataclass(frozen=True)
class Characters(Filter):
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

    min_share: Annotated[float, Field(ge=0, le=1)] = 0.3
    min_letters: Annotated[float, Field(ge=0, le=1)] = 0.3
    source_scripts: list[str] | None = None
    target_scripts: list[str] | None = None

    def check(self, langs: tuple[str, str]) -> None:
        for side, scripts in zip(SIDES, self._scripts(langs), strict=True):
            for script in scripts:
                if not _is_script(script):
                    raise InputError(
                        f"characters: {side}_scripts: {script!r} is no script of Unicode; give names like Latin"
                    )

    def scores(self, batch: Batch) -> Iterable[tuple[_Counts, _Counts]]:
        """Counts of characters, by side."""
        sides = [
            self._count([pair[side] for pair in batch.pairs], scripts)
            for side, scripts in enumerate(self._scripts(batch.langs))
        ]
        return zip(*sides, strict=True)

    def accept(self, score: tuple[_Counts, _Counts]) -> bool:
        return not any(self._has_few_letters(side) or self._is_foreign(side) for side in score)

    def describe(self, score: tuple[_Counts, _Counts]) -> str:
        side = 0 if not self.accept((score[0], score[0])) else 1
        expected, letters, characters, plain_expected, plain_letters = score[side]
        if self._is_foreign(score[side]):
            return f"{_percent(plain_expected, plain_letters)} of the {SIDES[side]}'s letters are of its scripts"
        return f"{_percent(letters, characters)} of the {SIDES[side]} is letters"

    def _has_few_letters(self, counts: _Counts) -> bool:
        return counts[1] < self.min_letters * counts[2]

    def _is_foreign(self, counts: _Counts) -> bool:
        return counts[3] < self.min_share * counts[4]

    def _scripts(self, langs: tuple[str, str]) -> list[tuple[str, ...]]:
        given = (self.source_scripts, self.target_scripts)
        return [tuple(given[side] or scripts_of(langs[side], f"{SIDES[side]}_scripts")) for side in (0, 1)]

    def _count(self, texts: Sequence[str], scripts: tuple[str, ...]) -> list[_Counts]:
        counts = count_letters(texts, scripts)
        suspects = np.flatnonzero(counts[:, 0] < self.min_share * counts[:, 1]).tolist()
        plain = counts[:, :2].copy()
        plain[suspects] = count_letters([strip_markup(texts[row]) for row in suspects], scripts)[:, :2]
        return [tuple(row) for row in np.hstack([counts, plain]).tolist()]


def _percent(part: int, whole: int) -> str:
    return f"{100 * part // whole}%"


_IGNORED, _OTHER, _FOREIGN, _EXPECTED = range(4)


def count_letters(texts: Sequence[str], scripts: tuple[str, ...]) -> np.ndarray:
    """Count in each of N texts the letters of some scripts, all letters, and all characters but spaces.

    Letters that all scripts share, like ª or the ー of Japanese, are counted with these. Vowels that Unicode has
    as marks are letters; accents as characters of their own are not counted.

    Args:
        texts: N texts.
        scripts: Unicode names.

    Returns:
        Shape: N×3
    """
    if not texts:
        return np.zeros((0, 3), dtype=np.int64)
    # All texts at once. The line feed behind each leaves none without a character, which reduceat needs.
    joined = "".join([f"{text}\n" for text in texts])
    codes = np.frombuffer(joined.encode("utf-32-le", "surrogatepass"), dtype="<u4")
    kinds = _kind_of_character(scripts)[codes]
    sizes = np.array([len(text) + 1 for text in texts], dtype=np.int64)
    starts = np.cumsum(sizes) - sizes
    sums = [np.add.reduceat(kinds >= kind, starts, dtype=np.int64) for kind in (_EXPECTED, _FOREIGN, _OTHER)]
    return np.stack(sums, axis=1)


def _is_script(name: str) -> bool:
    try:
        return name.isidentifier() and bool(regex.compile(rf"\p{{Script={name}}}"))
    except (regex.error, OverflowError):  # it takes inf for a number
        return False


@lru_cache(maxsize=8)
def _kind_of_character(scripts: tuple[str, ...]) -> np.ndarray:
    """Shape: 0x110000."""
    every = "".join(map(chr, range(0x110000)))
    kinds = np.full(len(every), _OTHER, dtype=np.uint8)
    letters = r"[\p{L}[\p{M}--\p{Script=Inherited}]]"
    these = "".join(rf"\p{{Script={script}}}" for script in scripts)
    patterns = {
        _IGNORED: r"[\s\p{Script=Inherited}]",
        _FOREIGN: letters,
        _EXPECTED: rf"[{letters}&&[{these}\p{{Script=Common}}]]",
    }
    for kind, pattern in patterns.items():
        for match in regex.finditer(f"{pattern}+", every, regex.VERSION1):
            kinds[match.start() : match.end()] = kind
    return kinds
