"""N-best lists: the hypotheses of every sentence, best first, with the features of each.

Two formats are read: that of Moses, and the output of ``fairseq-generate --nbest``.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from itertools import chain, groupby
from pathlib import Path
from typing import TypeVar

import numpy as np

from fairseq_ext.corpora.text_files import stream_lines
from fairseq_ext.inputs.errors import InputError, shown

# Choices that need no weights.
FIRST_BEST, ORACLE = "first-best", "oracle"
# Features of the system that made the list: its total score, and fairseq's without length normalisation.
SCORE, MODEL, MODEL_SUM = "score", "model", "model_sum"
# The number of words, which re-ranking adds.
WORDS = "words"

_MOST_NUMBERS = 1 << 29  # 4 GiB
_MOSES_LINE = re.compile(r"\s*\d+\s+\|\|\|\s")
_MOSES_INDEX = re.compile(r"[0-9]{1,18}")
_MOSES_NAME = re.compile(r"(?:^|(?<=\s))(\S+)[=:](?=\s|$)")
_FAIRSEQ_LINE = re.compile(r"([HDP])-([0-9]{1,18})\t(.*)", re.DOTALL)
_OF_HYPOTHESIS = ("H-", "D-", "P-")
_SHOWN = 60

_Line = tuple[int, str]  # number and text
_Parsed = TypeVar("_Parsed")


@dataclass(frozen=True)
class Hypothesis:
    """One translation of a sentence, with its features; all hypotheses of a list have the same ones in one order."""

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
        """Collect hypotheses, a sentence at a time."""
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
    lines = enumerate((line.rstrip("\r") for line in stream_lines(path)), start=1)
    first = next(lines)
    sentences = _moses_sentences if _MOSES_LINE.match(first[1]) else _fairseq_sentences
    return NBest.of(sentences(chain([first], lines), path))


def _parse(lines: Iterator[_Line], path: Path, parse: Callable[[str], _Parsed]) -> Iterator[tuple[_Line, _Parsed]]:
    """Parse each line; a ValueError of ``parse`` becomes an InputError."""
    for line in lines:
        try:
            yield line, parse(line[1])
        except ValueError as error:
            raise _error(path, line, str(error)) from None


def _error(path: Path, line: _Line, what: str) -> InputError:
    number, text = line
    start = text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"
    return InputError(f"{path}, line {number}: {what}: {start!r}; make the list again")


def _number(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise ValueError(f"{shown(text)} is no finite number")
    return value


# Moses


def _moses_sentences(lines: Iterator[_Line], path: Path) -> Iterator[list[Hypothesis]]:
    names: list[str] = []
    parsed = _parse(lines, path, _moses_line)
    for expected, (index, group) in enumerate(groupby(parsed, key=lambda item: item[1][0])):
        hypotheses = []
        for line, (_, hypothesis) in group:
            names = names or list(hypothesis.features)
            if index != expected:
                raise _error(path, line, f"belongs to sentence {index} where {expected} must follow")
            if list(hypothesis.features) != names:
                raise _error(path, line, f"has other features than line 1, which has {' '.join(names)}")
            hypotheses.append(hypothesis)
        yield hypotheses


def _moses_line(line: str) -> tuple[int, Hypothesis]:
    fields = [field.strip() for field in line.split("|||")]
    if len(fields) < 4:
        raise ValueError("is not 'id ||| hypothesis ||| features ||| score'")
    index, text, named, score = fields[:4]
    if not _MOSES_INDEX.fullmatch(index):
        raise ValueError(f"does not start with the number of a sentence but {shown(index)}")
    features = _moses_features(named)
    if SCORE in features:
        raise ValueError(f"has a feature named {SCORE!r}, which the fourth column is")
    return int(index), Hypothesis(text, {**features, SCORE: _number(score)})


def _moses_features(named: str) -> dict[str, float]:
    """The features of ``name= 1.5 2 other= 3``."""
    before, *parts = _MOSES_NAME.split(named)
    if before.strip():
        raise ValueError(f"{shown(before)} is no feature, as in 'name= 1.5 2'")
    features: dict[str, float] = {}
    for name, words in zip(parts[::2], parts[1::2], strict=True):
        values = [_number(word) for word in words.split()]
        if not values:
            raise ValueError(f"the feature {shown(name)} has no value")
        numbered = {f"{name}.{number}": value for number, value in enumerate(values, start=1)}
        own = numbered if len(values) > 1 else {name: values[0]}
        if own.keys() & features.keys():
            raise ValueError(f"has the feature {shown(name)} twice")
        features |= own
    return features


# fairseq


@dataclass
class _Printed:
    """What fairseq printed of a sentence: numbers and texts of its hypotheses, by the letter of their lines."""

    line: _Line
    entries: dict[str, list[tuple[float, str]]] = field(default_factory=lambda: {"H": [], "D": [], "P": []})

    def hypotheses(self, path: Path) -> list[Hypothesis]:
        heads, detokenised, sums = self.entries.values()
        if len(sums) != len(heads) or len(detokenised) not in (0, len(heads)):
            counts = f"{len(heads)} H-, {len(detokenised)} D- and {len(sums)} P-"
            raise _error(path, self.line, f"starts a sentence with {counts} lines, which must be as many")
        return [
            Hypothesis(text, {MODEL: score, MODEL_SUM: total})
            for (_, text), (score, _), (total, _) in zip(detokenised or heads, heads, sums, strict=True)
        ]


def _fairseq_sentences(lines: Iterator[_Line], path: Path) -> Iterator[list[Hypothesis]]:
    found: dict[int, _Printed] = {}
    of_hypotheses = (line for line in lines if line[1].startswith(_OF_HYPOTHESIS))
    for line, (kind, index, entry) in _parse(of_hypotheses, path, _fairseq_line):
        found.setdefault(index, _Printed(line)).entries[kind].append(entry)
    if not found:
        raise InputError(
            f"{path}: is not an n-best list; give one in Moses format, or the output of fairseq-generate --nbest"
        )
    for index in range(len(found)):
        if index not in found:
            raise InputError(
                f"{path}: sentence {index} is missing, the last one is {max(found)}; make the list of the whole set"
            )
        yield found.pop(index).hypotheses(path)


def _fairseq_line(line: str) -> tuple[str, int, tuple[float, str]]:
    """Letter, number of the sentence, and a number with a text; of the line P- the sum of its numbers."""
    match = _FAIRSEQ_LINE.fullmatch(line)
    if match is None:
        raise ValueError("is cut off or damaged")
    kind, index, rest = match[1], int(match[2]), match[3]
    if kind == "P":
        numbers = [_number(word) for word in rest.split()]
        if not numbers:
            raise ValueError("has no numbers")
        return kind, index, (_number(str(sum(numbers))), "")
    score, tab, text = rest.partition("\t")
    if not tab:
        raise ValueError(f"is not '{kind}-ID', a number and a text between tabs")
    return kind, index, (_number(score), text)
