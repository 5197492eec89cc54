"""Reading n-best lists: those of Moses, and what ``fairseq-generate --nbest`` prints."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import chain, groupby
from pathlib import Path

from fairseq_ext.corpora.compressed import DAMAGE, damage, open_binary
from fairseq_ext.inputs.errors import InputError, shown
from fairseq_ext.reranking.nbest import Hypothesis, NBest

# Features of the system that made the list: its total score, and fairseq's without length normalisation.
SCORE, MODEL, MODEL_SUM = "score", "model", "model_sum"
# The number of words, which re-ranking adds.
WORDS = "words"

_SEPARATOR = "|||"
_MOSES_LINE = re.compile(r"\s*\d+\s+\|\|\|\s")
_MOSES_NAME = re.compile(r"(\S+)[=:]")
# Of the lines that fairseq prints, those that say something of a hypothesis.
_FAIRSEQ_LINE = re.compile(r"([HDP])-([0-9]{1,18})\t(.*)", re.DOTALL)
_HEAD, _DETOKENISED, _POSITIONS = "H", "D", "P"
_SHOWN = 60
_LONGEST_LINE = 1 << 20  # bytes
_MOST_DIGITS = 18

_Line = tuple[int, str]  # number and text


def read_nbest(path: Path) -> NBest:
    """Read a list; which kind it is, its first line tells.

    Moses: ``id ||| hypothesis ||| name= v v … name2= v ||| score``, maybe with alignments behind. Features are
    ``name``, or ``name.1``, ``name.2``, … of several values, and ``score``, the decoder's weighted sum of them.

    fairseq: the lines H-, D- and P- of a hypothesis; whatever else is printed is passed over, and sentences may come
    in any order. Texts are the D- lines where there are such. Features are ``model``, the score, which is divided by
    the length; and ``model_sum``, the sum over the positions. Both are as printed, in base 2.

    Args:
        path: compressed if its suffix says so.

    Raises:
        InputError: naming the line that is damaged, and a sentence that is missing.
    """
    lines = _numbered_lines(path)
    first = next(lines, None)
    if first is None:
        raise InputError(f"{path}: is empty; give an n-best list")
    lines = chain([first], lines)
    sentences = _moses_sentences if _MOSES_LINE.match(first[1]) else _fairseq_sentences
    return NBest.of(sentences(lines, path))


def _numbered_lines(path: Path) -> Iterator[_Line]:
    number = 0
    with open_binary(path, "rb") as file:
        try:
            for number, line in enumerate(iter(lambda: file.readline(_LONGEST_LINE), b""), start=1):
                if len(line) == _LONGEST_LINE:
                    raise InputError(f"{path}, line {number}: is longer than {_LONGEST_LINE >> 20} MiB; is it a list?")
                yield number, line.decode("utf-8").rstrip("\r\n")
        except UnicodeDecodeError as error:
            raise InputError(
                f"{path}, line {number}: byte {error.start + 1} is not UTF-8; convert the file to UTF-8"
            ) from None
        except DAMAGE as error:
            raise damage(str(path), error, f"after line {number}") from None


def _error(path: Path, line: _Line, what: str) -> InputError:
    number, text = line
    shown = text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"
    return InputError(f"{path}, line {number}: {what}: {shown!r}; make the list again")


def _number(text: str) -> float | None:
    """A finite number, or None."""
    try:
        value = float(text)
    except ValueError:
        return None
    return value if abs(value) < float("inf") else None


# Moses


def _moses_sentences(lines: Iterator[_Line], path: Path) -> Iterator[list[Hypothesis]]:
    names: list[str] | None = None
    parsed = ((line, *_moses_line(line, path)) for line in lines)
    for expected, (index, group) in enumerate(groupby(parsed, key=lambda item: item[1])):
        hypotheses = []
        for line, _, hypothesis in group:
            if index != expected:
                raise _error(path, line, f"belongs to sentence {index} where {expected} must follow")
            names = names or list(hypothesis.features)
            if list(hypothesis.features) != names:
                raise _error(path, line, f"has other features than line 1, which has {' '.join(names)}")
            hypotheses.append(hypothesis)
        yield hypotheses


def _moses_line(line: _Line, path: Path) -> tuple[int, Hypothesis]:
    fields = [field.strip() for field in line[1].split(_SEPARATOR)]
    if len(fields) < 4:
        raise _error(path, line, f"is not 'id {_SEPARATOR} hypothesis {_SEPARATOR} features {_SEPARATOR} score'")
    index, text, named, score = fields[:4]
    if not (index.isascii() and index.isdigit() and len(index) <= _MOST_DIGITS):
        raise _error(path, line, f"does not start with the number of a sentence but {shown(index)}")
    values = _moses_features(named, line, path)
    total = _number(score)
    if total is None:
        raise _error(path, line, f"its score {shown(score)} is no number")
    if SCORE in values:
        raise _error(path, line, f"has a feature named {SCORE!r}, which the fourth column is")
    return int(index), Hypothesis(text, values | {SCORE: total})


def _moses_features(named: str, line: _Line, path: Path) -> dict[str, float]:
    values: dict[str, list[float]] = {}
    own: list[float] | None = None
    for word in named.split():
        name = _MOSES_NAME.fullmatch(word)
        if name:
            if name[1] in values:
                raise _error(path, line, f"has the feature {shown(name[1])} twice")
            own = values[name[1]] = []
            continue
        value = _number(word)
        if value is None or own is None:
            raise _error(path, line, f"{shown(word)} is no value of a feature, as in 'name= 1.5 2'")
        own.append(value)
    flat: dict[str, float] = {}
    for key, numbers in values.items():
        if not numbers:
            raise _error(path, line, f"the feature {shown(key)} has no value")
        flat |= {key: numbers[0]} if len(numbers) == 1 else {f"{key}.{n}": v for n, v in enumerate(numbers, start=1)}
    return flat


# fairseq


@dataclass
class _Printed:
    """What fairseq printed of a sentence: a number and a text for each of its hypotheses."""

    line: _Line
    heads: list[tuple[float, str]] = field(default_factory=list)
    detokenised: list[str] = field(default_factory=list)
    sums: list[float] = field(default_factory=list)

    def hypotheses(self, path: Path) -> list[Hypothesis]:
        count = len(self.heads)
        if len(self.sums) != count or len(self.detokenised) not in (0, count):
            counts = f"{count} H-, {len(self.detokenised)} D- and {len(self.sums)} P-"
            raise _error(path, self.line, f"starts a sentence with {counts} lines, which must be as many")
        texts = self.detokenised or [text for _, text in self.heads]
        scores = [score for score, _ in self.heads]
        return [
            Hypothesis(text, {MODEL: score, MODEL_SUM: total})
            for text, score, total in zip(texts, scores, self.sums, strict=True)
        ]


def _fairseq_sentences(lines: Iterator[_Line], path: Path) -> Iterator[list[Hypothesis]]:
    found: dict[int, _Printed] = {}
    for line in lines:
        if match := _FAIRSEQ_LINE.fullmatch(line[1]):
            printed = found.setdefault(int(match[2]), _Printed(line))
            _add_line(printed, match[1], match[3], line, path)
        elif re.match(r"[HDP]-", line[1]):
            raise _error(path, line, "is cut off or damaged")
    if not found:
        raise InputError(f"{path}: no n-best list; give one of Moses, or the output of fairseq-generate --nbest")
    # By sentence: only this kind of list is out of order.
    for index in range(len(found)):
        if index not in found:
            raise InputError(
                f"{path}: sentence {index} is missing, the last one is {max(found)}; make the list of the whole set"
            )
        yield found.pop(index).hypotheses(path)


def _add_line(printed: _Printed, kind: str, rest: str, line: _Line, path: Path) -> None:
    if kind == _POSITIONS:
        values = [_number(word) for word in rest.split()]
        known = [value for value in values if value is not None]
        total = _number(str(sum(known)))
        if not values or len(known) < len(values) or total is None:
            raise _error(path, line, "has something else than numbers")
        printed.sums.append(total)
        return
    score, tab, text = rest.partition("\t")
    value = _number(score)
    if not tab or value is None:
        raise _error(path, line, f"is not '{kind}-ID', a number and a text between tabs")
    if kind == _HEAD:
        printed.heads.append((value, text))
    else:
        printed.detokenised.append(text)
