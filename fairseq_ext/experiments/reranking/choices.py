"""Choose hypotheses of n-best lists: by weighted features, with weights tuned for corpus BLEU, or by the references.

Weights are tuned by coordinate ascent with exact line search: Och (2003), *Minimum Error Rate Training in Statistical
Machine Translation*, §5. The score of a hypothesis is linear in the weight γ of a feature, and the best hypothesis of a
sentence is on the upper envelope of these lines. The choice therefore changes only at a few thresholds, and BLEU is
computed for each interval between them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial

import numpy as np
from sacrebleu.metrics.bleu import BLEU
from tqdm import tqdm

from fairseq_ext.experiments.metrics.corpus_metrics import SacrebleuMetric
from fairseq_ext.experiments.reranking.nbest import FIRST_BEST, MODEL, ORACLE, NBest

_ORDERS = 4  # longest n-grams of BLEU
# Shorter intervals of γ (relative to its value) are ignored, because rounding could change the choice of hypotheses.
_SHORTEST = 1e-9
# Gains in BLEU up to this value may be due to rounding.
_NO_GAIN = 1e-9


def choose(nbest: NBest, counts: np.ndarray, weights: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Choose hypotheses: the first ones, those with the highest weighted scores, and the oracle.

    Shape:
        counts: S×K×10, statistics of BLEU; weights: F by name; result: S by name
    """
    choices = {FIRST_BEST: np.zeros(len(counts), dtype=int)}
    choices |= {name: nbest.best(of_row) for name, of_row in weights.items()}
    return choices | {ORACLE: oracle_choice(counts, nbest.is_hypothesis, list(choices.values()))}


# BLEU of many choices, from the statistics of each hypothesis


def count_hypotheses(metric: SacrebleuMetric, nbest: NBest, references: Sequence[str]) -> np.ndarray:
    """Compute the metric's statistics of each hypothesis against its reference.

    Shape:
        references: S; result: S×K×M, zero where there is no hypothesis
    """
    most = nbest.features.shape[1]
    # One translation of all sentences for each position in the list, so that references are processed only once.
    places = [[texts[place] if place < len(texts) else "" for texts in nbest.texts] for place in range(most)]
    return np.stack(metric.count(places, references), axis=1) * nbest.is_hypothesis[..., None]


def bleu_of_sums(sums: np.ndarray) -> np.ndarray:
    """Compute corpus BLEU of N sums of statistics, with sacrebleu's default (exponential) smoothing.

    The result is 0 if no n-gram matches or if there are too few words for 4-grams.

    Args:
        sums: length of the hypotheses, length of the references, then the numbers of matching n-grams and of all
            n-grams in the hypotheses, each for n from 1 to 4.

    Shape:
        sums: N×10; result: N, from 0 to 100
    """
    sums = sums.astype(np.float64)
    length, reference_length = sums[:, 0], sums[:, 1]
    correct, total = sums[:, 2 : 2 + _ORDERS], sums[:, 2 + _ORDERS :]
    smoothed = np.where(correct > 0, correct, 0.5 ** np.cumsum(correct == 0, axis=1))
    can_score = (total > 0).all(axis=1) & (correct > 0).any(axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        precisions = np.log(100 * smoothed / total).mean(axis=1)
        brevity = np.minimum(0, 1 - reference_length / length)
        return np.where(can_score, np.exp(precisions + brevity), 0.0)


def bleu_of_choice(counts: np.ndarray, choice: np.ndarray) -> float:
    """Compute corpus BLEU of one hypothesis per sentence: S×K×10, S."""
    return float(bleu_of_sums(counts[np.arange(len(choice)), choice].sum(axis=0)[None])[0])


def oracle_choice(counts: np.ndarray, is_hypothesis: np.ndarray, others: Sequence[np.ndarray]) -> np.ndarray:
    """Find a choice that cannot be improved by changing a single sentence and is at least as good as all ``others``.

    The search is hill climbing on corpus BLEU. It starts from the hypotheses with the highest sentence BLEU, or from
    the best of ``others`` if that is better. An exact search is infeasible.

    Shape:
        counts: S×K×10; is_hypothesis: S×K; others, result: S
    """
    starts = [best_sentences(counts, is_hypothesis), *others]
    choice = max(starts, key=lambda start: bleu_of_choice(counts, start)).copy()
    total = counts[np.arange(len(counts)), choice].sum(axis=0)
    gains = True
    while gains:
        gains = False
        for sentence, hypotheses in enumerate(counts):
            sums = total - hypotheses[choice[sentence]] + hypotheses
            scores = np.where(is_hypothesis[sentence], bleu_of_sums(sums), -1)
            best = int(scores.argmax())
            if scores[best] > scores[choice[sentence]]:
                total, choice[sentence], gains = sums[best], best, True
    return choice


def best_sentences(counts: np.ndarray, is_hypothesis: np.ndarray) -> np.ndarray:
    """Choose the hypothesis of each sentence with the highest sentence BLEU (sacrebleu's): S×K×10, S×K → S."""
    metric = SacrebleuMetric(partial(BLEU, effective_order=True))
    scores = np.full(is_hypothesis.shape, -1.0)
    scores[is_hypothesis] = [metric.score(row) for row in counts[is_hypothesis].tolist()]
    return scores.argmax(axis=1)


# Coordinate ascent


def find_weights(nbest: NBest, counts: np.ndarray, *, restarts: int, seed: int) -> np.ndarray:
    """Find the weights with the highest BLEU of several ascents, from the list's order and from random weights: F.

    Features are scaled to the same spread within a sentence during tuning, so that random weights, uniform in −1 to 1,
    give each of them the same influence. The absolute values of weights times these spreads sum to one.

    Shape:
        counts: S×K×10, statistics of BLEU
    """
    spread = feature_spread(nbest)
    scaled = replace(nbest, features=nbest.features / spread)
    drawn = np.random.default_rng(seed).uniform(-1, 1, size=(restarts, len(spread)))
    best, best_score = np.array([float(name == MODEL) for name in nbest.names]), -1.0
    for start in tqdm([best * spread, *drawn], desc="tune", unit="start", disable=None):
        weights, score = ascend(scaled, counts, start)
        if score > best_score + _NO_GAIN:
            best, best_score = weights, score
    return best / max(np.abs(best).sum(), np.finfo(float).tiny) / spread


def feature_spread(nbest: NBest) -> np.ndarray:
    """Compute the spread of each feature within a sentence; 1 for constant features: F."""
    mask = nbest.is_hypothesis[..., None]
    lengths = mask.sum(axis=1)
    means = nbest.features.sum(axis=1) / lengths
    deviations = (nbest.features - means[:, None]) * mask
    spread: np.ndarray = np.sqrt(((deviations**2).sum(axis=1) / lengths).mean(axis=0))
    # Rounding errors of constant features do not count as variation.
    is_constant = spread <= 1e-12 * (1 + np.abs(nbest.features).max(axis=(0, 1)))
    return np.where(is_constant, 1.0, spread)


def ascend(nbest: NBest, counts: np.ndarray, weights: np.ndarray) -> tuple[np.ndarray, float]:
    """Repeatedly change the weight with the largest gain, until there is no gain. Return weights and BLEU."""
    score = bleu_of_choice(counts, nbest.best(weights))
    while True:
        candidates = [weights.copy() for _ in weights]
        for index, candidate in enumerate(candidates):
            candidate[index] = best_weight(nbest, counts, weights, index)
        # Scores are recomputed from the weights, so that rounding in the search cannot cause a loss.
        scores = [bleu_of_choice(counts, nbest.best(candidate)) for candidate in candidates]
        best = int(np.argmax(scores))
        if scores[best] <= score + _NO_GAIN:
            return weights, score
        weights, score = candidates[best], scores[best]


# Line search


def best_weight(nbest: NBest, counts: np.ndarray, weights: np.ndarray, index: int) -> float:
    """Find the weight of one feature with the highest corpus BLEU: the centre of the best interval.

    The feature's current weight is ignored.

    Shape:
        counts: S×K×10; weights: F
    """
    others = np.where(np.arange(len(weights)) == index, 0, weights)
    first, changes = upper_envelopes(nbest.features @ others, nbest.features[..., index], nbest.is_hypothesis)
    thresholds, sentences, before, after = changes
    order = np.argsort(thresholds, kind="stable")
    inner = thresholds[order]
    # BLEU is constant beyond the outermost thresholds, and everywhere if there are none.
    lowest, highest = (inner[0], inner[-1]) if len(inner) else (0.0, 0.0)
    reach = 1 + highest - lowest
    lows, highs = np.append(lowest - reach, inner), np.append(inner, highest + reach)
    start = counts[np.arange(len(counts)), first].sum(axis=0, keepdims=True)
    differences = (counts[sentences, after] - counts[sentences, before])[order]
    sums = np.concatenate([start, start + differences.cumsum(axis=0)])
    is_long = highs - lows > _SHORTEST * np.maximum(1, np.abs(lows))
    best = int(np.where(is_long, bleu_of_sums(sums), -1).argmax())
    return float((lows[best] + highs[best]) / 2)


def upper_envelopes(
    intercepts: np.ndarray, slopes: np.ndarray, is_line: np.ndarray
) -> tuple[np.ndarray, list[np.ndarray]]:
    """Find where the highest line ``intercept + γ·slope`` of each sentence changes as γ grows. Ties go to the first.

    Each step moves, in all sentences, to the steeper line with the nearest intersection.

    Shape:
        intercepts, slopes, is_line: S×K, with at least one line in each row

    Returns:
        The highest line of each sentence at γ = −∞, S; and for C changes, unsorted, four arrays: γ, sentence, line
        before the change, line after it.
    """
    rows = np.arange(len(slopes))
    lowest = np.where(is_line, slopes, np.inf).min(axis=1, keepdims=True)
    current = np.where(is_line & (slopes == lowest), intercepts, -np.inf).argmax(axis=1)
    first, changes, reached = current, [], np.full(len(rows), -np.inf)
    while len(rows):
        rise = slopes[rows] - slopes[rows, current][:, None]
        drop = intercepts[rows, current][:, None] - intercepts[rows]
        is_steeper = is_line[rows] & (rise > 0)
        crossings = np.where(is_steeper, drop / np.where(is_steeper, rise, 1), np.inf)
        nearest = crossings.min(axis=1)
        following = np.where(crossings == nearest[:, None], rise, -np.inf).argmax(axis=1)
        goes_on = np.isfinite(nearest)
        # Rounding may place a crossing slightly before the previous one.
        reached = np.maximum(reached, nearest)[goes_on]
        rows, current, following = rows[goes_on], current[goes_on], following[goes_on]
        changes.append((reached, rows, current, following))
        current = following
    return first, [np.concatenate(parts) for parts in zip(*changes, strict=True)]
