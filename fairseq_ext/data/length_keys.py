"""Small numbers that sort examples by length: numpy sorts 16 bits by radix, ten times as fast as it merges more."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

_MOST_RANKS = 1 << 16
_MOST_COMBINATIONS = 1 << 24


def side_sizes(sizes: Sequence[np.ndarray], opening_tokens: int = 0) -> np.ndarray:
    """The lengths of all examples of several corpora, in the smallest type that holds them.

    Args:
        sizes: of each corpus, N or N×S, S sides: source and target, or the one of a language model.
        opening_tokens: by so many all sources are longer.

    Shape:
        result: S×N
    """
    by_side = [np.asarray(each).reshape(len(each), -1).T for each in sizes]
    longest = max((int(each.max()) for each in by_side if each.size), default=0)
    shape = len(by_side[0]), sum(each.shape[1] for each in by_side)
    joined = np.empty(shape, dtype=np.min_scalar_type(longest + opening_tokens))
    np.concatenate(by_side, axis=1, out=joined, casting="unsafe")
    joined[0] += opening_tokens
    return joined


def length_keys(sizes: np.ndarray) -> list[np.ndarray]:
    """Numbers that order examples by their first side, then by the next.

    Of usual text one suffices, the rank of an example's sizes among those that there are; else each side is one.

    Args:
        sizes: of the examples, S×N.

    Returns:
        Keys, N each, to sort by one after the other, stably.
    """
    widths = sizes.max(axis=1).astype(np.int64) + 1 if sizes.size else np.ones(len(sizes), dtype=np.int64)
    if widths.prod() <= _MOST_COMBINATIONS:
        combined = sizes[0].astype(np.uint32)
        for side, width in zip(sizes[1:], widths[1:], strict=True):
            combined *= np.uint32(width)
            combined += side
        is_present = np.zeros(widths.prod(), dtype=bool)
        is_present[combined] = True
        if is_present.sum() <= _MOST_RANKS:
            ranks = np.cumsum(is_present) - 1
            return [ranks.astype(np.uint16)[combined]]
    return list(sizes[::-1])
