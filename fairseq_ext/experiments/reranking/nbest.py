"""N-best lists of ``fairseq-generate --nbest``: hypotheses of each sentence, best first, with their features."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from fairseq_ext.text.text_files import stream_lines

# Choices that need no weights.
FIRST_BEST, ORACLE = "first-best", "oracle"
# Features of the translation system: its score, normalised by length, and the sum over positions.
MODEL, MODEL_SUM = "model", "model_sum"
# Number of words; added by re-ranking.
WORDS = "words"


@dataclass(frozen=True)
class NBest:
    """Hypotheses of S sentences, at most K each, with F features.

    Attributes:
        texts: hypotheses of each sentence, in the order of the list.
        names: names of the features.
        features: values of the features, S×K×F; zero where there is no hypothesis.
    """

    texts: list[list[str]]
    names: list[str]
    features: np.ndarray

    @classmethod
    def of(cls, texts: list[list[str]], features: Mapping[str, Sequence[float]]) -> NBest:
        """Make a list of the hypotheses of each sentence, and their features as in :meth:`with_features`."""
        return cls(texts, [], np.zeros((len(texts), max(map(len, texts)), 0))).with_features(features)

    @property
    def is_hypothesis(self) -> np.ndarray:
        """Mask of existing hypotheses: S×K."""
        lengths = np.array([len(hypotheses) for hypotheses in self.texts])
        return np.arange(self.features.shape[1]) < lengths[:, None]

    def with_features(self, columns: Mapping[str, Sequence[float] | np.ndarray]) -> NBest:
        """Add features: one value per hypothesis for each name, in the order of :meth:`all_texts`."""
        added = np.zeros((*self.features.shape[:2], len(columns)))
        added[self.is_hypothesis] = np.stack(list(columns.values()), axis=1)
        return NBest(self.texts, [*self.names, *columns], np.concatenate([self.features, added], axis=2))

    def without(self, features: Set[str]) -> NBest:
        """Return the list without some of its features."""
        kept = [number for number, name in enumerate(self.names) if name not in features]
        return NBest(self.texts, [self.names[number] for number in kept], self.features[..., kept])

    def part(self, sentences: range) -> NBest:
        """Return the part of the list for a range of sentences."""
        rows = slice(sentences.start, sentences.stop)
        return NBest(self.texts[rows], self.names, self.features[rows])

    def all_texts(self) -> list[str]:
        """Return the hypotheses of all sentences, in order."""
        return [text for hypotheses in self.texts for text in hypotheses]

    def best(self, weights: np.ndarray) -> np.ndarray:
        """Choose the hypothesis of each sentence with the highest weighted sum of features; ties go to the first: S."""
        scores = np.where(self.is_hypothesis, self.features @ weights, -np.inf)
        return scores.argmax(axis=1)

    def chosen(self, choice: np.ndarray) -> list[str]:
        """Return the texts of the chosen hypotheses."""
        return [hypotheses[number] for hypotheses, number in zip(self.texts, choice, strict=True)]


def read_nbest(path: Path) -> NBest:
    """Read an n-best list that fairseq-generate printed: texts of D- lines, scores of H- lines, positions of P- lines.

    Sentences may be in any order. The features ``model``, the score normalised by length, and ``model_sum``, the sum
    over positions, are in base 2, as printed.
    """
    printed: dict[int, dict[str, list[list[str]]]] = defaultdict(lambda: {"H": [], "D": [], "P": []})
    for line in stream_lines(path):
        if line.startswith(("H-", "D-", "P-")):
            number, *fields = line[2:].split("\t", 2)
            printed[int(number)][line[0]].append(fields)
    sentences = [printed[number] for number in sorted(printed)]
    scores = [float(score) for lines in sentences for score, _ in lines["H"]]
    sums = [sum(map(float, positions.split())) for lines in sentences for [positions] in lines["P"]]
    return NBest.of([[text for _, text in lines["D"]] for lines in sentences], {MODEL: scores, MODEL_SUM: sums})
