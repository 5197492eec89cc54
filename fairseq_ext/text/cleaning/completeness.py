"""The filter for pairs with a part missing on one side, such as half of the text or the last sentence."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Self

import numpy as np
from pydantic import Field

from fairseq_ext.base.json_file import write_json
from fairseq_ext.base.sections import Number
from fairseq_ext.text.cleaning.dictionary import EVIDENCE_FILE, LexicalEvidence, read_evidence
from fairseq_ext.text.cleaning.filters import SIDES, Batch, Filter
from fairseq_ext.text.text_files import Pair

LENGTHS_FILE = "lengths.json"
_FINAL_MARK = re.compile(r"[.!?…。！？।؟۔][\s\"'”’»«)\]]*$").search
# Other signs of a missing part, in deviations: the shorter side lacks the longer one's final mark; the last words of
# the longer one have no translation, which counts a third of its evidence, up to a maximum.
_NO_MARK = 1.5
_PER_EVIDENCE = 1 / 3
_MAX_EVIDENCE = 5.0
# Bounds of the length classes, in mean characters of both sides. Ratios of short pairs vary more, with other medians.
EDGES = (10, 20, 30, 45, 65, 90, 130, 180, 260)
# The 5% smallest and 5% largest ratios are treated as outliers; a normal distribution has these quantiles at 1.645
# deviations. The two directions have separate deviations, since lists of terms are explained more often than cut.
_QUANTILES = (0.05, 0.5, 0.95)
_DEVIATIONS = 1.645
# Prior of each length class, weighted like this number of pairs: equal lengths, and a deviation for short text.
_USUAL_DEVIATION = 0.3
_USUAL_COUNT = 50
# If nearly all pairs are names, equal on both sides, one more letter would otherwise be many deviations.
_MIN_DEVIATION = 0.15


class Completeness(Filter):
    """Drops pairs with a side that is too short, compared with pairs of similar length in the corpora.

    The measure is the deviation of the logarithm of the character ratio from its median for that length
    (:class:`LengthRatios`). It increases if only the longer side ends with a full stop or similar mark, and if the last
    words of the longer side have no translation (only with the filter ``dictionary``, which learns translations).
    """

    max_deviation: Annotated[Number, Field(ge=0)] = 4.6
    """Maximum deviation of a pair."""
    exempt: Annotated[int, Field(ge=0)] = 15
    """Pairs with at most this many characters on the longer side pass, since the lengths of terms differ much."""

    def reasons(self, batch: Batch) -> Iterator[str | None]:
        assert batch.learned is not None
        lengths, words = LengthRatios.read(batch.learned / LENGTHS_FILE), batch.learned / EVIDENCE_FILE
        evidence = read_evidence(words) if words.exists() else None
        characters = count_characters(batch.pairs)
        deviations = lengths.deviations(np.maximum(characters, 1))
        # Pairs that cannot exceed the limit, given their lengths, are skipped.
        most = np.abs(deviations) + _NO_MARK + _PER_EVIDENCE * _MAX_EVIDENCE
        is_suspect = (most > self.max_deviation) & (characters.max(axis=1, initial=0) > self.exempt)
        for pair, deviation, suspect in zip(batch.pairs, deviations.tolist(), is_suspect.tolist(), strict=True):
            yield self._reason(pair, deviation, evidence) if suspect else None

    def _reason(self, pair: Pair, deviation: float, evidence: LexicalEvidence | None) -> str | None:
        shorter, longer = (0, 1) if deviation > 0 else (1, 0)
        total, signs = abs(deviation), [f"{abs(deviation):.1f} deviations"]
        if _FINAL_MARK(pair[longer]) and not _FINAL_MARK(pair[shorter]):
            total += _NO_MARK
            signs.append("no final mark")
        tail = min(evidence.tail(pair, longer), _MAX_EVIDENCE) if evidence else 0.0
        if tail:
            total += _PER_EVIDENCE * tail
            signs.append(f"the {SIDES[longer]}'s last words not translated")
        return f"{SIDES[shorter]} too short: {', '.join(signs)}" if total > self.max_deviation else None


@dataclass(frozen=True)
class LengthRatios:
    """Statistics of the log ratio of target to source characters, for E + 1 classes of length.

    Attributes:
        median: median log ratios, E + 1 values.
        shorter: deviations below the median, E + 1 values.
        longer: deviations above the median, E + 1 values.
    """

    median: np.ndarray
    shorter: np.ndarray
    longer: np.ndarray

    @classmethod
    def read(cls, path: Path) -> Self:
        """Read the output of :func:`learn_lengths`."""
        return cls(*np.array(json.loads(path.read_text(encoding="utf-8"))["usual"]).T)

    def deviations(self, characters: np.ndarray) -> np.ndarray:
        """Return by how many deviations each target is longer than usual; negative if it is shorter.

        Shape:
            characters: N×2, at least 1; result: N
        """
        ratios, classes = _log_ratios(characters), _classes(characters)
        beyond = ratios - self.median[classes]
        return beyond / np.where(beyond < 0, self.shorter[classes], self.longer[classes])


def count_characters(pairs: Iterable[Pair]) -> np.ndarray:
    """Return the numbers of characters of both sides. Shape: N×2"""
    return np.array([(len(one), len(other)) for one, other in pairs], dtype=np.int64).reshape(-1, 2)


def learn_lengths(pairs: Iterable[Pair], output: Path) -> None:
    """Write the statistics of :class:`LengthRatios` as JSON.

    Pairs must have no empty side. Their order and repetitions do not matter.
    """
    characters = count_characters(set(pairs))
    ratios, classes = _log_ratios(characters), _classes(characters)
    rows = [_usual(np.sort(ratios[classes == number])) for number in range(len(EDGES) + 1)]
    write_json(output, {"edges": list(EDGES), "usual": rows})


def _usual(ratios: np.ndarray) -> list[float]:
    """Return median and deviations of a class, smoothed towards the prior if it is small. Shape: N; result: 3"""
    count = len(ratios)
    low, median, high = np.quantile(ratios, _QUANTILES) if count else (0.0, 0.0, 0.0)
    share = count / (count + _USUAL_COUNT)
    deviations = (
        (share * ((limit - median) / _DEVIATIONS) ** 2 + (1 - share) * _USUAL_DEVIATION**2) ** 0.5
        for limit in (low, high)
    )
    return [round(float(share * median), 4), *(round(max(float(each), _MIN_DEVIATION), 4) for each in deviations)]


def _log_ratios(characters: np.ndarray) -> np.ndarray:
    return np.log(characters[:, 1] / characters[:, 0])


def _classes(characters: np.ndarray) -> np.ndarray:
    return np.searchsorted(EDGES, characters.mean(axis=1), side="right")
