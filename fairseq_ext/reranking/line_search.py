"""Exact line search: the weight of one feature that gives the best corpus BLEU, all others fixed.

Och (2003), *Minimum Error Rate Training in Statistical Machine Translation*, §5. As the weight γ of a feature grows,
the score of each hypothesis moves on a line, and the best hypothesis of a sentence is the one on the upper envelope
of its lines. So the choice changes at a few thresholds only, and so does BLEU: it is computed between all of
them, and no value of γ is missed.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from fairseq_ext.reranking.bleu_counts import bleu_of_sums
from fairseq_ext.reranking.nbest import NBest

# Within a shorter stretch, relative to where it lies, rounding could choose other hypotheses.
_SHORTEST = 1e-9


class Changes(NamedTuple):
    """Where the choice of hypotheses changes as γ grows from −∞.

    Attributes:
        first: the hypothesis of each sentence at −∞: S.
        thresholds: the values of γ at which one sentence changes, in no order: C.
        sentences: which: C.
        before: from which hypothesis: C.
        after: to which: C.
    """

    first: np.ndarray
    thresholds: np.ndarray
    sentences: np.ndarray
    before: np.ndarray
    after: np.ndarray


def upper_envelopes(intercepts: np.ndarray, slopes: np.ndarray, is_line: np.ndarray) -> Changes:
    """Follow, for all sentences at once, the highest of their lines ``intercept + γ·slope``; of equals the first.

    Each step goes on, in every sentence, to the steeper line that is met first, until there is no steeper one.

    Shape:
        intercepts, slopes, is_line: S×K, a line at least in each row
    """
    rows = np.arange(len(slopes))
    lowest = np.where(is_line, slopes, np.inf).min(axis=1, keepdims=True)
    current = np.where(is_line & (slopes == lowest), intercepts, -np.inf).argmax(axis=1)
    first, found, reached = current, [], np.full(len(rows), -np.inf)
    while len(rows):
        rise = slopes[rows] - slopes[rows, current][:, None]
        drop = intercepts[rows, current][:, None] - intercepts[rows]
        is_steeper = is_line[rows] & (rise > 0)
        crossings = np.where(is_steeper, drop / np.where(is_steeper, rise, 1), np.inf)
        nearest = crossings.min(axis=1)
        following = np.where(crossings == nearest[:, None], rise, -np.inf).argmax(axis=1)
        goes_on = np.isfinite(nearest)
        # Rounding may put a crossing a little before the last one.
        reached = np.maximum(reached, nearest)[goes_on]
        rows, current, following = rows[goes_on], current[goes_on], following[goes_on]
        found.append((reached, rows, current, following))
        current = following
    columns = [np.concatenate(parts) for parts in zip(*found, strict=True)]
    return Changes(first, *columns)


def best_weight(nbest: NBest, counts: np.ndarray, weights: np.ndarray, index: int) -> float:
    """The weight of one feature with the highest corpus BLEU, in the middle of the stretch that has it.

    Args:
        nbest: the list.
        counts: what BLEU counts in its hypotheses.
        weights: of all features; that of the one that is searched does not matter.
        index: which one.

    Shape:
        counts: S×K×10; weights: F
    """
    others = np.where(np.arange(len(weights)) == index, 0, weights)
    changes = upper_envelopes(nbest.features @ others, nbest.features[..., index], nbest.is_hypothesis)
    thresholds, sums = _sums_between(changes, counts)
    lows, highs = thresholds[:-1], thresholds[1:]
    is_long = highs - lows > _SHORTEST * np.maximum(1, np.abs(lows))
    scores = np.where(is_long, bleu_of_sums(sums), -1)
    best = int(scores.argmax())
    return float((lows[best] + highs[best]) / 2)


def _sums_between(changes: Changes, counts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Sorted thresholds, with an end beyond the first and the last, and the sums between them: C+2, (C+1)×10."""
    order = np.argsort(changes.thresholds, kind="stable")
    inner = changes.thresholds[order]
    sentences = changes.sentences[order]
    differences = counts[sentences, changes.after[order]] - counts[sentences, changes.before[order]]
    start = counts[np.arange(len(counts)), changes.first].sum(axis=0, keepdims=True)
    sums = np.concatenate([start, start + differences.cumsum(axis=0)])
    # Beyond the outermost thresholds every value is the same; without any, all are.
    ends = (inner[0], inner[-1]) if len(inner) else (0.0, 0.0)
    reach = 1 + ends[1] - ends[0]
    return np.concatenate([[ends[0] - reach], inner, [ends[1] + reach]]), sums
