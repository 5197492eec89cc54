"""N-best lists of ``fairseq-generate --nbest``: hypotheses of each sentence, best first, with their features."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np

from fairseq_ext.base.errors import InputError
from fairseq_ext.text.text_files import stream_lines

# Choices that need no weights.
FIRST_BEST, ORACLE = "first-best", "oracle"
# Features of the translation system: its score, normalised by length, and the sum over positions.
MODEL, MODEL_SUM = "model", "model_sum"
# Number of words; added by re-ranking.
WORDS = "words"

_LINE = re.compile(r"([HDP])-(\d{1,18})\t([^\t]*)(?:\t(.*))?", re.ASCII | re.DOTALL)


class Hypothesis(NamedTuple):
    """A translation of a sentence. All hypotheses of a list have the same features in the same order."""

    text: str
    features: Mapping[str, float]


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
    def of(cls, sentences: Sequence[Sequence[Hypothesis]]) -> NBest:
        """Collect the hypotheses of all sentences."""
        texts = [[hypothesis.text for hypothesis in own] for own in sentences]
        names = list(sentences[0][0].features)
        features = np.zeros((len(texts), max(map(len, texts)), len(names)))
        for rows, own in zip(features, sentences, strict=True):
            rows[: len(own)] = [list(hypothesis.features.values()) for hypothesis in own]
        return cls(texts, names, features)

    @property
    def is_hypothesis(self) -> np.ndarray:
        """Mask of existing hypotheses: S×K."""
        lengths = np.array([len(own) for own in self.texts])
        return np.arange(self.features.shape[1]) < lengths[:, None]

    def with_features(self, columns: Mapping[str, np.ndarray]) -> NBest:
        """Add features: one value per hypothesis for each name, in the order of :meth:`all_texts`."""
        grids = []
        for name, values in columns.items():
            if name in self.names:
                raise InputError(f"feature {name}: is already in the n-best list; rename the new one")
            grid = np.zeros(self.features.shape[:2])
            grid[self.is_hypothesis] = values
            grids.append(grid)
        return NBest(self.texts, [*self.names, *columns], np.dstack([self.features, *grids]))

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
        return [text for own in self.texts for text in own]

    def word_counts(self) -> np.ndarray:
        """Return the number of words of each hypothesis, in the order of :meth:`all_texts`."""
        return np.array([float(len(text.split())) for text in self.all_texts()])

    def best(self, weights: np.ndarray) -> np.ndarray:
        """Choose the hypothesis of each sentence with the highest weighted sum of features; ties go to the first: S."""
        scores = np.where(self.is_hypothesis, self.features @ weights, -np.inf)
        return scores.argmax(axis=1)

    def chosen(self, choice: Sequence[int] | np.ndarray) -> list[str]:
        """Return the texts of the chosen hypotheses."""
        return [own[number] for own, number in zip(self.texts, choice, strict=True)]


def read_nbest(path: Path) -> NBest:
    """Read the lines H-, D- and P- of an n-best list. Other lines are ignored; sentences may be in any order.

    Texts are from D- lines if present, otherwise from H- lines. Features are ``model``, the score normalised by length,
    and ``model_sum``, the sum over positions. Both are in base 2, as printed.
    """
    printed: dict[int, dict[str, list[tuple[float, str]]]] = {}
    for number, line in enumerate(stream_lines(path), start=1):
        if line.startswith(("H-", "D-", "P-")):
            try:
                kind, index, value, text = _parse(line.rstrip("\r"))
            except ValueError as error:
                raise InputError(f"{path}, line {number}: {error}; create the list again") from None
            printed.setdefault(index, {"H": [], "D": [], "P": []})[kind].append((value, text))
    if not printed:
        raise InputError(f"{path}: is not an n-best list; give the output of fairseq-generate --nbest")
    sentences = [_hypotheses(printed[index]) if index in printed else [] for index in range(len(printed))]
    for index, hypotheses in enumerate(sentences):
        if not hypotheses:
            raise InputError(
                f"{path}: sentence {index} is missing or incomplete; create the list again, for the whole set"
            )
    return NBest.of(sentences)


def _parse(line: str) -> tuple[str, int, float, str]:
    """Return the letter of a line, the number of its sentence, its score, and its text, which P- lines lack."""
    match = _LINE.fullmatch(line)
    if match is None or (match[4] is None) != (match[1] == "P"):
        raise ValueError("is cut off or damaged")
    kind, index, numbers, text = match.groups()
    # Only P- lines have several numbers.
    value = sum(map(float, numbers.split())) if kind == "P" else float(numbers)
    if not math.isfinite(value):
        raise ValueError("has a number that is not finite")
    return kind, int(index), value, text or ""


def _hypotheses(printed: Mapping[str, Sequence[tuple[float, str]]]) -> list[Hypothesis]:
    """Return the hypotheses of a sentence from its lines by letter. All hypotheses or none have D- lines."""
    heads, sums = printed["H"], printed["P"]
    texts = printed["D"] or heads
    if not len(texts) == len(heads) == len(sums):
        return []
    return [
        Hypothesis(text, {MODEL: score, MODEL_SUM: total})
        for (_, text), (score, _), (total, _) in zip(texts, heads, sums, strict=True)
    ]
