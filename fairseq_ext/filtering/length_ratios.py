"""How long translations are in a corpus: usual ratios of characters by the length of the pair, and deviations."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import numpy as np

from fairseq_ext.corpora.text_files import Pair

# Mean characters of both sides. Ratios of short pairs vary more, and have other means.
EDGES = (10, 20, 30, 45, 65, 90, 130, 180, 260)
# The twentieth part of the pairs with the smallest and the largest ratios may be anything: a normal distribution has
# its limits at 1.645 deviations. Each direction has its own, as lists of terms are explained more often than cut.
_QUANTILES = (0.05, 0.5, 0.95)
_DEVIATIONS = 1.645
# A class of lengths starts at these, as if it had so many pairs: no ratio, and deviations that suit short text.
_USUAL_DEVIATION = 0.3
_USUAL_COUNT = 50
# Where nearly all pairs are names, equal on both sides, a letter more would be many deviations.
_MIN_DEVIATION = 0.15


@dataclass(frozen=True)
class LengthRatios:
    """Of pairs in each of E + 1 classes of length: the logarithm of target to source characters, and its deviations.

    Attributes:
        median: E + 1 values.
        shorter: deviation of ratios below the median, E + 1 values.
        longer: the same above it.
    """

    median: np.ndarray
    shorter: np.ndarray
    longer: np.ndarray

    @classmethod
    def read(cls, path: Path) -> Self:
        """Read what :func:`learn_lengths` wrote."""
        return cls(*np.array(json.loads(path.read_text(encoding="utf-8"))["usual"]).T)

    def deviations(self, characters: np.ndarray) -> np.ndarray:
        """Deviations by which a target is longer than usual; negative where it is shorter.

        Shape:
            characters: N×2, at least 1; result: N
        """
        ratios, classes = _log_ratios(characters), _classes(characters)
        beyond = ratios - self.median[classes]
        return beyond / np.where(beyond < 0, self.shorter[classes], self.longer[classes])


def count_characters(pairs: Iterable[Pair]) -> np.ndarray:
    """Shape: N×2."""
    return np.array([(len(one), len(other)) for one, other in pairs], dtype=np.int64).reshape(-1, 2)


def learn_lengths(pairs: Iterable[Pair], output: Path) -> None:
    """Write what is usual among some pairs; neither their order nor repetitions matter.

    Args:
        pairs: sentences and their translations, none empty.
        output: file to write, JSON.
    """
    characters = count_characters(set(pairs))
    ratios, classes = _log_ratios(characters), _classes(characters)
    rows = [_usual(np.sort(ratios[classes == number])) for number in range(len(EDGES) + 1)]
    document = {"edges": list(EDGES), "usual": rows}
    output.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")


def _usual(ratios: np.ndarray) -> list[float]:
    """Median and deviations of a class of N pairs, drawn to the usual ones if these are few. Shape: N; result: 3"""
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
