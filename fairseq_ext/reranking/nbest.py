"""N-best lists: for every sentence its hypotheses, best first, and what the system that made them says of each."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from fairseq_ext.corpora.text_files import read_lines
from fairseq_ext.inputs.errors import InputError

# Choices that need no weights.
FIRST_BEST, ORACLE = "first-best", "oracle"
_MOST_NUMBERS = 1 << 29  # 4 GiB


@dataclass(frozen=True)
class Hypothesis:
    """One translation of a sentence.

    Attributes:
        text: it.
        features: numbers by name; all hypotheses of a list have the same names in the same order.
    """

    text: str
    features: Mapping[str, float]


@dataclass(frozen=True)
class NBest:
    """The hypotheses of S sentences, at most K each, with F features.

    Attributes:
        texts: of every sentence its hypotheses, in the order of the list.
        names: of the features.
        features: S×K×F; rows without a hypothesis are zero.
    """

    texts: list[list[str]]
    names: list[str]
    features: np.ndarray

    @classmethod
    def of(cls, sentences: Iterable[Sequence[Hypothesis]]) -> NBest:
        """Collect what was read, a sentence at a time."""
        texts: list[list[str]] = []
        names: list[str] = []
        values: list[np.ndarray] = []
        for hypotheses in sentences:
            names = names or list(hypotheses[0].features)
            texts.append([hypothesis.text for hypothesis in hypotheses])
            values.append(np.array([list(hypothesis.features.values()) for hypothesis in hypotheses]))
        most = max(map(len, texts))
        if len(texts) * most * len(names) > _MOST_NUMBERS:
            raise InputError(
                f"the n-best list has {len(texts)} sentences of up to {most} hypotheses with {len(names)} features "
                "each, too many to hold; keep fewer hypotheses of a sentence"
            )
        features = np.zeros((len(texts), most, len(names)))
        for row, own in zip(features, values, strict=True):
            row[: len(own)] = own
        return cls(texts, names, features)

    @property
    def is_hypothesis(self) -> np.ndarray:
        """Which rows are hypotheses: S×K."""
        lengths = np.array([len(own) for own in self.texts])
        return np.arange(self.features.shape[1]) < lengths[:, None]

    def with_features(self, columns: Mapping[str, np.ndarray]) -> NBest:
        """The list with more features.

        Args:
            columns: by name, a number for every hypothesis of the first sentence, then of the second, ….

        Raises:
            InputError: if the list has a feature of this name.
        """
        grids = []
        for name, values in columns.items():
            if name in self.names:
                raise InputError(f"feature {name}: is in the n-best list already; give the new one another name")
            grid = np.zeros(self.features.shape[:2])
            grid[self.is_hypothesis] = values
            grids.append(grid)
        return NBest(self.texts, [*self.names, *columns], np.dstack([self.features, *grids]))

    def without(self, features: Set[str]) -> NBest:
        """The list without some of its features."""
        kept = [number for number, name in enumerate(self.names) if name not in features]
        return NBest(self.texts, [self.names[number] for number in kept], self.features[..., kept])

    def part(self, sentences: range) -> NBest:
        """The list of some of its sentences."""
        rows = slice(sentences.start, sentences.stop)
        return NBest(self.texts[rows], self.names, self.features[rows])

    def all_texts(self) -> list[str]:
        """The hypotheses of the first sentence, then of the second, …."""
        return [text for own in self.texts for text in own]

    def word_counts(self) -> np.ndarray:
        """The number of words of every hypothesis, in the order of :meth:`all_texts`."""
        return np.array([float(len(text.split())) for text in self.all_texts()])

    def best(self, weights: np.ndarray) -> np.ndarray:
        """The hypothesis of each sentence with the highest weighted sum of features; of equals the first: S."""
        scores = np.where(self.is_hypothesis, self.features @ weights, -np.inf)
        return scores.argmax(axis=1)

    def chosen(self, choice: Sequence[int] | np.ndarray) -> list[str]:
        """The texts of one hypothesis a sentence."""
        return [own[number] for own, number in zip(self.texts, choice, strict=True)]


def read_references(path: Path, nbest: NBest, nbest_path: Path) -> list[str]:
    """Read the references, one a line.

    Raises:
        InputError: if they are not as many as the list has sentences.
    """
    lines = read_lines(path)
    if len(lines) != len(nbest.texts):
        raise InputError(
            f"{path}: has {len(lines)} lines for the {len(nbest.texts)} sentences of {nbest_path}; give the references "
            "of that list"
        )
    return lines
