"""Counting the letters of many sentences by their scripts."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np
import regex

_IGNORED, _OTHER, _FOREIGN, _EXPECTED = range(4)
_NUM_CHARACTERS = 0x110000


def count_kinds(texts: Sequence[str], scripts: tuple[str, ...]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Count in each of N texts what is no letter (without spaces), letters of other scripts, and letters of these.

    Letters that all scripts share, like ª or the ー of Japanese, are counted with these. Vowels that Unicode has
    as marks are letters; accents as characters of their own are not counted.

    Args:
        texts: N texts.
        scripts: Unicode names.

    Returns:
        Three arrays. Shape: N each.
    """
    # All texts at once. The line feed behind each leaves none without a character, which reduceat needs.
    joined = "".join([f"{text}\n" for text in texts])
    codes = np.frombuffer(joined.encode("utf-32-le", "surrogatepass"), dtype="<u4")
    kinds = _kind_of_character(scripts)[codes]
    sizes = np.array([len(text) + 1 for text in texts], dtype=np.int64)
    starts = np.cumsum(sizes) - sizes
    other, foreign, expected = (
        np.add.reduceat(kinds == kind, starts, dtype=np.int64) for kind in (_OTHER, _FOREIGN, _EXPECTED)
    )
    return other, foreign, expected


def is_script(name: str) -> bool:
    """Whether Unicode has a script of this name."""
    try:
        return name.isidentifier() and bool(regex.compile(rf"\p{{Script={name}}}"))
    except (regex.error, OverflowError):  # it takes inf for a number
        return False


@lru_cache(maxsize=8)
def _kind_of_character(scripts: tuple[str, ...]) -> np.ndarray:
    """Shape: 0x110000."""
    every = "".join(map(chr, range(_NUM_CHARACTERS)))
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
