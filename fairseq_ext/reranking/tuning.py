"""Tuning the weights of features for corpus BLEU: coordinate ascent by exact line searches, from several starts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

import numpy as np
from tqdm import tqdm

from fairseq_ext.inputs.errors import InputError
from fairseq_ext.reranking.bleu_counts import bleu_of_sums
from fairseq_ext.reranking.line_search import best_weight
from fairseq_ext.reranking.nbest import NBest
from fairseq_ext.reranking.nbest_files import MODEL, SCORE
from fairseq_ext.reranking.weights import Weights

# A gain in BLEU that is no more than rounding.
_NO_GAIN = 1e-9


def first_weights(nbest: NBest) -> np.ndarray:
    """Weights by which the system that made the list orders it: one for its own total score, zero for all else.

    Raises:
        InputError: if the list has no such score.
    """
    for name in (SCORE, MODEL):
        if name in nbest.names:
            return np.array([float(own == name) for own in nbest.names])
    raise InputError(f"the n-best list has neither {SCORE!r} nor {MODEL!r} to start with; give --start WEIGHTS.json")


def find_weights(
    nbest: NBest,
    counts: np.ndarray,
    *,
    restarts: int,
    seed: int,
    starts: Sequence[np.ndarray] = (),
    sources: Mapping[str, str] = MappingProxyType({}),
) -> Weights:
    """Tune weights, and say what BLEU they have.

    Args:
        nbest: the tuning list.
        counts: what BLEU counts in its hypotheses.
        restarts: how many random starts there are.
        seed: draws them.
        starts: weights to start from besides; by default the list's own order.
        sources: fingerprints of the language models that some features are of.

    Shape:
        counts: S×K×10; starts: F
    """
    starts = starts or [first_weights(nbest)]
    values = tune_weights(nbest, counts, starts, restarts=restarts, seed=seed)
    first = np.zeros(len(counts), dtype=int)
    choices = {"first_best": first, "start": nbest.best(starts[0]), "tuned": nbest.best(values)}
    scores = {name: round(bleu_of_choice(counts, choice), 4) for name, choice in choices.items()}
    about = {"BLEU": scores, "restarts": restarts, "seed": seed}
    return Weights(dict(zip(nbest.names, values.tolist(), strict=True)), sources, about)


def tune_weights(
    nbest: NBest, counts: np.ndarray, starts: Sequence[np.ndarray], *, restarts: int, seed: int
) -> np.ndarray:
    """The weights of the highest BLEU that an ascent from given or random weights arrives at; of equals the first.

    Features are scaled to the same spread among a sentence's hypotheses while they are tuned, so that random
    weights, drawn evenly from −1 to 1, give each of them as much to say.

    Args:
        nbest: the tuning list.
        counts: what BLEU counts in its hypotheses.
        starts: given weights.
        restarts: how many random starts there are besides.
        seed: draws them.

    Returns:
        Weights whose absolute values, times the spread of their features, sum to one.

    Shape:
        counts: S×K×10; starts, result: F
    """
    spread = feature_spread(nbest)
    scaled = replace(nbest, features=nbest.features / spread)
    drawn = np.random.default_rng(seed).uniform(-1, 1, size=(restarts, len(spread)))
    best, best_score = starts[0] * spread, -1.0
    for start in tqdm([*(own * spread for own in starts), *drawn], desc="tune", unit="start", disable=None):
        weights, score = ascend(scaled, counts, start)
        if score > best_score + _NO_GAIN:
            best, best_score = weights, score
    return best / max(np.abs(best).sum(), np.finfo(float).tiny) / spread


def feature_spread(nbest: NBest) -> np.ndarray:
    """How much each feature varies among a sentence's hypotheses, which is all that matters; 1 if not at all: F."""
    mask = nbest.is_hypothesis[..., None]
    lengths = mask.sum(axis=1)
    means = nbest.features.sum(axis=1) / lengths
    deviations = (nbest.features - means[:, None]) * mask
    spread: np.ndarray = np.sqrt(((deviations**2).sum(axis=1) / lengths).mean(axis=0))
    # What rounding leaves of a constant is no variation.
    is_constant = spread <= 1e-12 * (1 + np.abs(nbest.features).max(axis=(0, 1)))
    return np.where(is_constant, 1.0, spread)


def ascend(nbest: NBest, counts: np.ndarray, weights: np.ndarray) -> tuple[np.ndarray, float]:
    """Change one weight at a time, each time the one that gains most, until none gains; returns weights and BLEU."""
    score = bleu_of_choice(counts, nbest.best(weights))
    while True:
        candidates = [_searched(nbest, counts, weights, index) for index in range(len(weights))]
        # Of the weights themselves, so that a step is a gain whatever rounding did in the search.
        scores = [bleu_of_choice(counts, nbest.best(candidate)) for candidate in candidates]
        best = int(np.argmax(scores))
        if scores[best] <= score + _NO_GAIN:
            return weights, score
        weights, score = candidates[best], scores[best]


def bleu_of_choice(counts: np.ndarray, choice: np.ndarray) -> float:
    """Corpus BLEU of one hypothesis a sentence: S×K×10, S."""
    return float(bleu_of_sums(counts[np.arange(len(choice)), choice].sum(axis=0)[None])[0])


def _searched(nbest: NBest, counts: np.ndarray, weights: np.ndarray, index: int) -> np.ndarray:
    weights = weights.copy()
    weights[index] = best_weight(nbest, counts, weights, index)
    return weights
