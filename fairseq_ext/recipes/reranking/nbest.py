"""N-best lists: the hypotheses of every sentence, best first, with the features of each.

Two formats are read: that of Moses, and the output of ``fairseq-generate --nbest``.
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

from fairseq_ext.corpora.text_files import stream_lines
from fairseq_ext.inputs.errors import InputError, shown

# Choices that need no weights.
FIRST_BEST, ORACLE = "first-best", "oracle"
# Features of the system that made the list: its total score, and fairseq's without length normalisation.
SCORE, MODEL, MODEL_SUM = "score", "model", "model_sum"
# The number of words, which re-ranking adds.
WORDS = "words"

_MOSES_LINE = re.compile(r"\s*(\d{1,18})\s+\|\|\|\s", re.ASCII)
_MOSES_NAME = re.compile(r"(?:^|(?<=\s))(\S+)[=:](?=\s|$)")
_FAIRSEQ_LINE = re.compile(r"([HDP])-(\d{1,18})\t([^\t]*)(?:\t(.*))?", re.ASCII | re.DOTALL)


class Hypothesis(NamedTuple):
    """One translation of a sentence; all hypotheses of a list have the same features in one order."""

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
        """Which rows are hypotheses: S×K."""
        lengths = np.array([len(own) for own in self.texts])
        return np.arange(self.features.shape[1]) < lengths[:, None]

    def with_features(self, columns: Mapping[str, np.ndarray]) -> NBest:
        """Add features: for each name, a number for each hypothesis in the order of :meth:`all_texts`."""
        grids = []
        for name, values in columns.items():
            if name in self.names:
                raise InputError(f"feature {name}: is already in the n-best list; rename the new one")
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
        """The hypotheses of all sentences, in order."""
        return [text for own in self.texts for text in own]

    def word_counts(self) -> np.ndarray:
        """The number of words of every hypothesis, in the order of :meth:`all_texts`."""
        return np.array([float(len(text.split())) for text in self.all_texts()])

    def best(self, weights: np.ndarray) -> np.ndarray:
        """The hypothesis of each sentence with the highest weighted sum of features; the first of equals: S."""
        scores = np.where(self.is_hypothesis, self.features @ weights, -np.inf)
        return scores.argmax(axis=1)

    def chosen(self, choice: Sequence[int] | np.ndarray) -> list[str]:
        """The texts of the chosen hypotheses."""
        return [own[number] for own, number in zip(self.texts, choice, strict=True)]


def read_nbest(path: Path) -> NBest:
    """Read a list, compressed if its suffix says so; its first line tells its format.

    Moses: ``id ||| hypothesis ||| name= v v … name2= v ||| score``, maybe with alignments behind. Features are
    ``name``, or ``name.1``, ``name.2``, … of several values, and ``score``, the decoder's weighted sum of them.

    fairseq: the lines H-, D- and P- of a hypothesis; other lines are ignored, and sentences may come in any order.
    Texts are the D- lines where there are such. Features are ``model``, the score, which is divided by the length; and
    ``model_sum``, the sum over the positions. Both are as printed, in base 2.
    """
    number = 0  # of the line that is read

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
        raise InputError(f"{path}, line {number}: {error}; make the list again") from None
    if not sentences:
        raise InputError(
            f"{path}: is not an n-best list; give one in Moses format, or the output of fairseq-generate --nbest"
        )
    for index in range(len(sentences)):
        if not sentences.get(index):
            raise InputError(f"{path}: sentence {index} is missing or cut off; make the list of the whole set")
    return NBest.of([sentences[index] for index in range(len(sentences))])


def _finite(value: float) -> float:
    if not math.isfinite(value):
        raise ValueError("has a number that is not finite")
    return value


def _read_moses(lines: Iterable[str]) -> dict[int, list[Hypothesis]]:
    """The hypotheses of each sentence, by its number."""
    found: dict[int, list[Hypothesis]] = {}
    names: list[str] = []
    for line in lines:
        match, fields = _MOSES_LINE.match(line), line.split("|||")
        if match is None or len(fields) < 4:
            raise ValueError("is not 'id ||| hypothesis ||| features ||| score'")
        features = {**_moses_features(fields[2]), SCORE: _finite(float(fields[3]))}
        names = names or list(features)
        if list(features) != names:
            raise ValueError(f"has other features than line 1, which has {' '.join(names)}")
        found.setdefault(int(match[1]), []).append(Hypothesis(fields[1].strip(), features))
    return found


def _moses_features(named: str) -> dict[str, float]:
    """The features of ``name= 1.5 2 other= 3``."""
    before, *parts = _MOSES_NAME.split(named)
    if before.strip():
        raise ValueError(f"{shown(before)} is no feature, as in 'name= 1.5 2'")
    features: dict[str, float] = {}
    for name, words in zip(parts[::2], parts[1::2], strict=True):
        values = [_finite(float(word)) for word in words.split()]
        if len(values) == 1:
            features[name] = values[0]
        else:
            features |= {f"{name}.{number}": value for number, value in enumerate(values, start=1)}
    return features


def _read_fairseq(lines: Iterable[str]) -> dict[int, list[Hypothesis]]:
    """The hypotheses of each sentence, by its number; none of a sentence that lacks lines."""
    printed: dict[int, dict[str, list[tuple[float, str]]]] = {}
    for line in lines:
        if not line.startswith(("H-", "D-", "P-")):
            continue
        match = _FAIRSEQ_LINE.fullmatch(line)
        if match is None or (match[4] is None) != (match[1] == "P"):
            raise ValueError("is cut off or damaged")
        kind, index, numbers, text = match.groups()
        # Only the line P- has several numbers.
        value = _finite(sum(map(float, numbers.split())) if kind == "P" else float(numbers))
        printed.setdefault(int(index), {"H": [], "D": [], "P": []})[kind].append((value, text))
    return {index: _fairseq_hypotheses(entries) for index, entries in printed.items()}


def _fairseq_hypotheses(printed: Mapping[str, Sequence[tuple[float, str]]]) -> list[Hypothesis]:
    """The hypotheses of a sentence, of its lines by letter; D- lines are there for all of them or for none."""
    heads, sums = printed["H"], printed["P"]
    texts = printed["D"] or heads
    if not len(texts) == len(heads) == len(sums):
        return []
    return [
        Hypothesis(text, {MODEL: score, MODEL_SUM: total})
        for (_, text), (score, _), (total, _) in zip(texts, heads, sums, strict=True)
    ]
