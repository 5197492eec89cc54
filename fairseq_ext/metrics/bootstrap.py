"""Paired bootstrap resampling: would the difference between two systems hold on other sentences of the same kind?

Koehn (2004), *Statistical Significance Tests for Machine Translation Evaluation*. Sentences are drawn with replacement,
all systems are scored on the same draw, and what counts is how often the difference keeps its sign. A metric needs only
the *sums* of what it counted in the sentences, so that a thousand draws are one matrix product.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

# Draws are made in blocks of about this many sentences; it bounds the memory (8 bytes each, a few times).
_BLOCK_SENTENCES = 1 << 20
# Fewer sentences cannot stand for others of their kind: all draws of one sentence are that sentence, and any difference
# would hold on every draw.
MIN_SENTENCES = 30
# p-values below it count as significant.
SIGNIFICANT = 0.05


def is_significant(p: float | None) -> bool:
    """Whether a difference is more than chance makes likely, for better or worse; None was not tested."""
    return p is not None and p < SIGNIFICANT


def format_p(p: float | None) -> str:
    """A p-value for a table."""
    return "not tested" if p is None else f"{p:.3f}"


def resampled_sums(counts: np.ndarray, resamples: int, seed: Sequence[int]) -> np.ndarray:
    """Sum the counts of the sentences as they are and of ``resamples`` draws of as many with replacement.

    Nothing is drawn from fewer than :data:`MIN_SENTENCES`; their result is the plain sum alone.

    Equal sentences, ``resamples`` and ``seed`` give equal draws, whatever the columns are: systems whose counts are
    summed in different calls are still paired.

    Args:
        counts: what a metric counted, a row a sentence; whole numbers, so that sums are exact in any order.
        resamples: R, how often to draw.
        seed: numbers that seed the generator.

    Shape:
        counts: N×S; result: (1+R)×S, its first row the plain sum; 1×S of too few sentences
    """
    num_sentences = len(counts)
    counts = counts.astype(np.float64)
    generator = np.random.default_rng(list(seed))
    block = max(1, _BLOCK_SENTENCES // num_sentences)
    sums = [counts.sum(axis=0, keepdims=True)]
    if num_sentences < MIN_SENTENCES:
        return sums[0]
    for start in range(0, resamples, block):
        size = min(block, resamples - start)
        drawn = generator.integers(num_sentences, size=(size, num_sentences))
        # Row r counts in a range of numbers of its own, so that one count serves the whole block.
        drawn += np.arange(size)[:, None] * num_sentences
        times = np.bincount(drawn.ravel(), minlength=size * num_sentences).reshape(size, num_sentences)
        sums.append(times.astype(np.float64) @ counts)
    return np.concatenate(sums)


def average(columns: Sequence[np.ndarray], weights: Sequence[float] | None = None) -> np.ndarray:
    """Average scores of several test sets draw by draw; the plain average alone if one of them was not drawn from.

    Shape:
        columns: 1+R each, or 1; result: the shortest of them
    """
    shared = min(map(len, columns))
    return np.average([column[:shared] for column in columns], axis=0, weights=weights)


def p_value(differences: np.ndarray) -> float | None:
    """Two-sided p-value of a difference from its values on R resamples: twice the share that contradicts its sign.

    Koehn asks in what share of the resamples one system wins; this is that share of the loser, taken twice
    because either system may be the better one. A tie counts for both sides, so systems with equal translations have
    p = 1, also where means of equal scores differ by their last bit. (sacrebleu's ``PairedTest`` gives such systems
    p = 1 / (R + 1), compares one run with one run and knows no average over domains.) The added one keeps p from being
    zero, which no finite number of resamples can show. Without resamples nothing is known: None.

    Shape:
        differences: R
    """
    if not len(differences):
        return None
    differences = differences.round(9)
    at_most, at_least = int((differences <= 0).sum()), int((differences >= 0).sum())
    return round(min(1.0, 2 * (min(at_most, at_least) + 1) / (len(differences) + 1)), 4)
