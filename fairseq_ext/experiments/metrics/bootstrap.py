"""Paired bootstrap resampling of test sentences.

Koehn (2004), *Statistical Significance Tests for Machine Translation Evaluation*. Sentences are drawn with replacement,
and all systems are scored on the same draw. A metric is a function of *sums* of sentence-level counts, so a thousand
draws can be computed with a matrix product.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

# Size of a block of draws, in sentences. It bounds the memory (a few times 8 bytes each).
_BLOCK_SENTENCES = 1 << 20
# Smaller test sets are not tested: with one sentence, any difference would hold on every draw.
MIN_SENTENCES = 30
# Smaller p-values are significant.
SIGNIFICANT = 0.05


def is_significant(p: float | None) -> bool:
    """Return whether a difference is significant in either direction; None means not tested."""
    return p is not None and p < SIGNIFICANT


def resampled_sums(counts: np.ndarray, resamples: int, seed: Sequence[int]) -> np.ndarray:
    """Sum counts over the sentences, and over ``resamples`` draws of as many sentences with replacement.

    Draws depend only on the number of sentences, ``resamples`` and ``seed``, so systems are paired across calls. Test
    sets with fewer than :data:`MIN_SENTENCES` sentences are not resampled.

    Shape:
        counts: N×S, integers, so that sums are exact in any order
        result: (1+R)×S, with the sum over all sentences in the first row; 1×S for too few sentences
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
        # Each row uses a separate range of numbers, so that one call counts the whole block.
        drawn += np.arange(size)[:, None] * num_sentences
        times = np.bincount(drawn.ravel(), minlength=size * num_sentences).reshape(size, num_sentences)
        sums.append(times.astype(np.float64) @ counts)
    return np.concatenate(sums)


def average(columns: Sequence[np.ndarray], weights: Sequence[float] | None = None) -> np.ndarray:
    """Average scores of several test sets for each draw; draws are dropped if a test set has none.

    Shape:
        columns: 1+R each, or 1; result: the shortest of these
    """
    shared = min(map(len, columns))
    return np.average([column[:shared] for column in columns], axis=0, weights=weights)


def p_value(differences: np.ndarray) -> float | None:
    """Compute a two-sided p-value: twice the share of R resamples in which the difference changes sign.

    The result is None without resamples. A tie counts for both signs, so equal systems have p = 1. (sacrebleu's
    ``PairedTest`` returns p = 1 / (R + 1), and supports neither several runs nor averages over domains.) One is added
    to both counts, so p is never zero.

    Shape:
        differences: R
    """
    if not len(differences):
        return None
    differences = differences.round(9)
    at_most, at_least = int((differences <= 0).sum()), int((differences >= 0).sum())
    return round(min(1.0, 2 * (min(at_most, at_least) + 1) / (len(differences) + 1)), 4)
