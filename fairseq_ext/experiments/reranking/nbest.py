"""N-best lists: hypotheses of each sentence, best first, with their features.

Two formats are supported: Moses, and the output of ``fairseq-generate --nbest``.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import NamedTuple

import numpy as np

from fairseq_ext.base.errors import InputError, shown
from fairseq_ext.text.text_files import stream_lines

# Choices that need no weights.
FIRST_BEST, ORACLE = "first-best", "oracle"
# Features of the translation system: the total score in Moses; in fairseq, the score with and without normalisation.
SCORE, MODEL, MODEL_SUM = "score", "model", "model_sum"
# Number of words; added by re-ranking.
WORDS = "words"

_MOSES_LINE = re.compile(r"\s*(\d{1,18})\s+\|\|\|\s", re.ASCII)
_MOSES_NAME = re.compile(r"(?:^|(?<=\s))(\S+)[=:](?=\s|$)")
_FAIRSEQ_LINE = re.compile(r"([HDP])-(\d{1,18})\t([^\t]*)(?:\t(.*))?", re.ASCII | re.DOTALL)


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
    """Read an n-best list. Compression is detected from the suffix, the format from the first line.

    Moses: ``id ||| hypothesis ||| name= v v … name2= v ||| score``, optionally followed by alignments. Features are
    ``name``, or ``name.1``, ``name.2``, … for several values, and ``score``, the decoder's weighted sum of features.

    fairseq: lines H-, D- and P- of each hypothesis. Other lines are ignored, and sentences may be in any order. Texts
    are from D- lines if present, otherwise from H- lines. Features are ``model``, the score normalised by length, and
    ``model_sum``, the sum over positions. Both are in base 2, as printed.
    """
    number = 0  # current line

    def numbered() -> Iterator[str]:
        nonlocal number
        for line in stream_lines(path):
            number += 1
            yield line.rstrip("\r")

    lines = numbered()
    first = next(lines)
    try:
        read = _read_moses if _MOSES_LINE.match(first) else _read_fairseq
        sentences = read(chain([first], lines))
    except ValueError as error:
        raise InputError(f"{path}, line {number}: {error}; create the list again") from None
    if not sentences:
        raise InputError(
            f"{path}: is not an n-best list; give one in Moses format, or the output of fairseq-generate --nbest"
        )
    for index in range(len(sentences)):
        if not sentences.get(index):
            raise InputError(
                f"{path}: sentence {index} is missing or incomplete; create the list again, for the whole set"
            )
    return NBest.of([sentences[index] for index in range(len(sentences))])


def _finite(value: float) -> float:
    if not math.isfinite(value):
        raise ValueError("has a number that is not finite")
    return value


def _read_moses(lines: Iterable[str]) -> dict[int, list[Hypothesis]]:
    """Return the hypotheses by sentence number."""
    found: dict[int, list[Hypothesis]] = {}
    names: list[str] = []
    for line in lines:
        match, fields = _MOSES_LINE.match(line), line.split("|||")
        if match is None or len(fields) < 4:
            raise ValueError("does not have the form 'id ||| hypothesis ||| features ||| score'")
        features = {**_moses_features(fields[2]), SCORE: _finite(float(fields[3]))}
        names = names or list(features)
        if list(features) != names:
            raise ValueError(f"does not have the features of line 1 ({' '.join(names)})")
        found.setdefault(int(match[1]), []).append(Hypothesis(fields[1].strip(), features))
    return found


def _moses_features(named: str) -> dict[str, float]:
    """Parse features such as ``name= 1.5 2 other= 3``."""
    before, *parts = _MOSES_NAME.split(named)
    if before.strip():
        raise ValueError(f"{shown(before)} is not a feature such as 'name= 1.5 2'")
    features: dict[str, float] = {}
    for name, words in zip(parts[::2], parts[1::2], strict=True):
        values = [_finite(float(word)) for word in words.split()]
        if len(values) == 1:
            features[name] = values[0]
        else:
            features |= {f"{name}.{number}": value for number, value in enumerate(values, start=1)}
    return features


def _read_fairseq(lines: Iterable[str]) -> dict[int, list[Hypothesis]]:
    """Return the hypotheses by sentence number; an empty list for sentences with missing lines."""
    printed: dict[int, dict[str, list[tuple[float, str]]]] = {}
    for line in lines:
        if not line.startswith(("H-", "D-", "P-")):
            continue
        match = _FAIRSEQ_LINE.fullmatch(line)
        if match is None or (match[4] is None) != (match[1] == "P"):
            raise ValueError("is cut off or damaged")
        kind, index, numbers, text = match.groups()
        # Only P- lines have several numbers.
        value = _finite(sum(map(float, numbers.split())) if kind == "P" else float(numbers))
        printed.setdefault(int(index), {"H": [], "D": [], "P": []})[kind].append((value, text))
    return {index: _fairseq_hypotheses(entries) for index, entries in printed.items()}


def _fairseq_hypotheses(printed: Mapping[str, Sequence[tuple[float, str]]]) -> list[Hypothesis]:
    """Return the hypotheses of a sentence from its lines by letter. All hypotheses or none have D- lines."""
    heads, sums = printed["H"], printed["P"]
    texts = printed["D"] or heads
    if not len(texts) == len(heads) == len(sums):
        return []
    return [
        Hypothesis(text, {MODEL: score, MODEL_SUM: total})
        for (_, text), (score, _), (total, _) in zip(texts, heads, sums, strict=True)
    ]
