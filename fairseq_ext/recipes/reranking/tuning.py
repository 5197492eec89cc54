"""Weights of features, tuned for corpus BLEU by coordinate ascent with exact line searches.

Och (2003), *Minimum Error Rate Training in Statistical Machine Translation*, §5. The score of a hypothesis is linear
in the weight γ of a feature, and the best hypothesis of a sentence is on the upper envelope of these lines. The choice
therefore changes only at a few thresholds, and BLEU is computed between all of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from pydantic import Field
from tqdm import tqdm

from fairseq_ext.engine.steps import atomic_write
from fairseq_ext.inputs.errors import InputError
from fairseq_ext.inputs.json_file import read_json
from fairseq_ext.inputs.models import Section, read_model
from fairseq_ext.recipes.reranking.evaluation import bleu_of_choice, bleu_of_sums
from fairseq_ext.recipes.reranking.nbest import MODEL, SCORE, NBest

# Within a shorter stretch of γ, relative to where it lies, rounding could choose other hypotheses.
_SHORTEST = 1e-9
# A gain in BLEU that is no more than rounding.
_NO_GAIN = 1e-9


class Weights(Section):
    """Weights of features, and the file that holds them; one written by hand needs only ``weights``."""

    weights: Annotated[dict[str, Annotated[float, Field(allow_inf_nan=False)]], Field(min_length=1)]
    """By feature."""
    sources: dict[str, str] = Field(default_factory=dict)
    """Fingerprints of the language models, by feature."""
    about: dict[str, Any] = Field(default_factory=dict)
    """How the weights were tuned."""

    @classmethod
    def read(cls, path: Path) -> Weights:
        """Read a file of :meth:`write`."""
        return read_model(cls, read_json(path, "give a file that rerank tune wrote"), str(path), {})

    def write(self, path: Path) -> None:
        """Write JSON."""
        with atomic_write(path) as temporary:
            temporary.write_text(self.model_dump_json(indent=1) + "\n", encoding="utf-8")

    def for_list(self, nbest: NBest, sources: Mapping[str, str], path: Path) -> np.ndarray:
        """As :meth:`in_order`, if they were tuned for a list's features and the fingerprints of these ``sources``."""
        for name in self.weights:
            if name not in nbest.names:
                raise InputError(
                    f"{path}: feature {name!r} is not in the list, which has {', '.join(nbest.names)}; "
                    "give the --lm, --arpa or --word-count that the weights were tuned with"
                )
            if self.sources.get(name, sources.get(name)) != sources.get(name):
                raise InputError(
                    f"{path}: the weight of {name!r} was tuned for another language model or other subwords; give "
                    "those, or tune again"
                )
        return self.in_order(nbest.names)

    def in_order(self, names: Sequence[str]) -> np.ndarray:
        """The weights of these features, 0 for features without a weight: F."""
        return np.array([self.weights.get(name, 0.0) for name in names])


# Coordinate ascent


def find_weights(nbest: NBest, counts: np.ndarray, *, restarts: int, seed: int, sources: Mapping[str, str]) -> Weights:
    """The weights with the highest BLEU of all ascents, from the list's own order and from random weights.

    Features are scaled to the same spread within a sentence during tuning, so that random weights, uniform in −1 to 1,
    give each of them the same influence. The absolute values of weights, times these spreads, sum to one. ``sources``
    are fingerprints of the language models that some features are of.

    Shape:
        counts: S×K×10, what BLEU counts
    """
    spread = feature_spread(nbest)
    scaled = replace(nbest, features=nbest.features / spread)
    drawn = np.random.default_rng(seed).uniform(-1, 1, size=(restarts, len(spread)))
    total = SCORE if SCORE in nbest.names else MODEL
    best, best_score = np.array([float(name == total) for name in nbest.names]), -1.0
    for start in tqdm([best * spread, *drawn], desc="tune", unit="start", disable=None):
        weights, score = ascend(scaled, counts, start)
        if score > best_score + _NO_GAIN:
            best, best_score = weights, score
    values = best / max(np.abs(best).sum(), np.finfo(float).tiny) / spread
    choices = {"first_best": np.zeros(len(counts), dtype=int), "tuned": nbest.best(values)}
    scores = {name: round(bleu_of_choice(counts, choice), 4) for name, choice in choices.items()}
    about = {"BLEU": scores, "restarts": restarts, "seed": seed}
    return Weights(weights=dict(zip(nbest.names, values.tolist(), strict=True)), sources=dict(sources), about=about)


def feature_spread(nbest: NBest) -> np.ndarray:
    """The spread of each feature within a sentence; 1 for constant features: F."""
    mask = nbest.is_hypothesis[..., None]
    lengths = mask.sum(axis=1)
    means = nbest.features.sum(axis=1) / lengths
    deviations = (nbest.features - means[:, None]) * mask
    spread: np.ndarray = np.sqrt(((deviations**2).sum(axis=1) / lengths).mean(axis=0))
    # What rounding leaves of a constant is no variation.
    is_constant = spread <= 1e-12 * (1 + np.abs(nbest.features).max(axis=(0, 1)))
    return np.where(is_constant, 1.0, spread)


def ascend(nbest: NBest, counts: np.ndarray, weights: np.ndarray) -> tuple[np.ndarray, float]:
    """Change the weight that gains most, until none gains; return weights and BLEU."""
    score = bleu_of_choice(counts, nbest.best(weights))
    while True:
        candidates = [weights.copy() for _ in weights]
        for index, candidate in enumerate(candidates):
            candidate[index] = best_weight(nbest, counts, weights, index)
        # Of the weights themselves, so that a step is a gain whatever rounding did in the search.
        scores = [bleu_of_choice(counts, nbest.best(candidate)) for candidate in candidates]
        best = int(np.argmax(scores))
        if scores[best] <= score + _NO_GAIN:
            return weights, score
        weights, score = candidates[best], scores[best]


# Line search


def best_weight(nbest: NBest, counts: np.ndarray, weights: np.ndarray, index: int) -> float:
    """The weight of one feature with the highest corpus BLEU, in the middle of its interval; its own is ignored.

    Shape:
        counts: S×K×10; weights: F
    """
    others = np.where(np.arange(len(weights)) == index, 0, weights)
    first, changes = upper_envelopes(nbest.features @ others, nbest.features[..., index], nbest.is_hypothesis)
    thresholds, sentences, before, after = changes
    order = np.argsort(thresholds, kind="stable")
    inner = thresholds[order]
    # Beyond the outermost thresholds every value is the same; without any, all are.
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
    """Where the highest of each sentence's lines ``intercept + γ·slope`` changes as γ grows; the first of equals.

    Each step moves, in every sentence, to the steeper line that intersects first.

    Shape:
        intercepts, slopes, is_line: S×K, a line at least in each row

    Returns:
        The line of each sentence at −∞, S; and of C changes, unsorted: γ, sentence, the line below γ, the line above.
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
    return first, [np.concatenate(parts) for parts in zip(*found, strict=True)]
