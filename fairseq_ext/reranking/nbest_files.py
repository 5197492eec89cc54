"""Reading n-best lists: those of Moses, and what ``fairseq-generate --nbest`` prints."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, groupby
from pathlib import Path
from typing import TypeVar

from fairseq_ext.corpora.text_files import stream_lines
from fairseq_ext.inputs.errors import InputError, shown
from fairseq_ext.reranking.nbest import Hypothesis, NBest

# Features of the system that made the list: its total score, and fairseq's without length normalisation.
SCORE, MODEL, MODEL_SUM = "score", "model", "model_sum"
# The number of words, which re-ranking adds.
WORDS = "words"

_SEPARATOR = "|||"
_MOSES_LINE = re.compile(r"\s*\d+\s+\|\|\|\s")
_MOSES_NAME = re.compile(r"(\S+)[=:]")
_FAIRSEQ_LINE = re.compile(r"([HDP])-([0-9]{1,18})\t(.*)", re.DOTALL)
_OF_HYPOTHESIS = ("H-", "D-", "P-")
_SHOWN = 60
_MOST_DIGITS = 18

_Line = tuple[int, str]  # number and text
_Parsed = TypeVar("_Parsed")


def read_nbest(path: Path) -> NBest:
    """Read a list; its first line tells its format.

    Moses: ``id ||| hypothesis ||| name= v v … name2= v ||| score``, maybe with alignments behind. Features are
    ``name``, or ``name.1``, ``name.2``, … of several values, and ``score``, the decoder's weighted sum of them.

    fairseq: the lines H-, D- and P- of a hypothesis; other lines are ignored, and sentences may come in any order.
    Texts are the D- lines where there are such. Features are ``model``, the score, which is divided by the length; and
    ``model_sum``, the sum over the positions. Both are as printed, in base 2.

    Args:
        path: compressed if its suffix says so.

    Raises:
        InputError: naming the line that is damaged, and a sentence that is missing.
    """
    lines = enumerate((line.rstrip("\r") for line in stream_lines(path)), start=1)
    first = next(lines)
    sentences = _moses_sentences if _MOSES_LINE.match(first[1]) else _fairseq_sentences
    return NBest.of(sentences(chain([first], lines), path))


def _parse(lines: Iterator[_Line], path: Path, parse: Callable[[str], _Parsed]) -> Iterator[tuple[_Line, _Parsed]]:
    """Each line with what it says; a ValueError of ``parse`` says what is wrong with it."""
    for line in lines:
        try:
            yield line, parse(line[1])
        except ValueError as error:
            raise _error(path, line, str(error)) from None


def _error(path: Path, line: _Line, what: str) -> InputError:
    number, text = line
    start = text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"
    return InputError(f"{path}, line {number}: {what}: {start!r}; make the list again")


def _number(text: str, what: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise ValueError(what)
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
    fields = [field.strip() for field in line.split(_SEPARATOR)]
    if len(fields) < 4:
        raise ValueError(f"is not 'id {_SEPARATOR} hypothesis {_SEPARATOR} features {_SEPARATOR} score'")
    index, text, named, score = fields[:4]
    if not (index.isascii() and index.isdigit() and len(index) <= _MOST_DIGITS):
        raise ValueError(f"does not start with the number of a sentence but {shown(index)}")
    features = _moses_features(named)
    if SCORE in features:
        raise ValueError(f"has a feature named {SCORE!r}, which the fourth column is")
    return int(index), Hypothesis(text, features | {SCORE: _number(score, f"its score {shown(score)} is no number")})


def _moses_features(named: str) -> dict[str, float]:
    features: dict[str, float] = {}
    for name, values in _moses_values(named).items():
        if not values:
            raise ValueError(f"the feature {shown(name)} has no value")
        several = {f"{name}.{number}": value for number, value in enumerate(values, start=1)}
        features |= {name: values[0]} if len(values) == 1 else several
    return features


def _moses_values(named: str) -> Mapping[str, Sequence[float]]:
    """The values by name: ``name= 1.5 2 other= 3``."""
    values: dict[str, list[float]] = {}
    own: list[float] | None = None
    for word in named.split():
        if name := _MOSES_NAME.fullmatch(word):
            if name[1] in values:
                raise ValueError(f"has the feature {shown(name[1])} twice")
            own = values[name[1]] = []
            continue
        what = f"{shown(word)} is no value of a feature, as in 'name= 1.5 2'"
        if own is None:
            raise ValueError(what)
        own.append(_number(word, what))
    return values


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
        raise InputError(f"{path}: no n-best list; give one of Moses, or the output of fairseq-generate --nbest")
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
    return kind, index, (_sum(rest), "") if kind == "P" else _scored_text(kind, rest)


def _sum(text: str) -> float:
    what = "has something else than numbers"
    numbers = [_number(word, what) for word in text.split()]
    return _number(str(sum(numbers)) if numbers else "", what)


def _scored_text(kind: str, rest: str) -> tuple[float, str]:
    what = f"is not '{kind}-ID', a number and a text between tabs"
    score, tab, text = rest.partition("\t")
    if not tab:
        raise ValueError(what)
    return _number(score, what), text
