"""The filters by their names, cheapest first: what an early one drops costs a later one nothing."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from fairseq_ext.filtering.agreement import Agreement
from fairseq_ext.filtering.batch import Batch, Reasons
from fairseq_ext.filtering.completeness import Completeness
from fairseq_ext.filtering.dictionary import Dictionary
from fairseq_ext.filtering.encoding import Encoding
from fairseq_ext.filtering.filters import Characters, Empty, Identical, Length, LengthRatio, LongWord
from fairseq_ext.filtering.language_id import LanguageId


class Filter(Protocol):
    """A frozen dataclass of options."""

    def reasons(self, batch: Batch) -> Reasons:
        """Say of each pair why it is dropped, or None to keep it."""


FILTERS: dict[str, type[Any]] = {
    "empty": Empty,
    "length": Length,
    "length_ratio": LengthRatio,
    "long_words": LongWord,
    "characters": Characters,
    "encoding": Encoding,
    "identical": Identical,
    "agreement": Agreement,
    "completeness": Completeness,
    "language": LanguageId,
    "dictionary": Dictionary,
}


@dataclass
class Outcome:
    """What a cascade made of N pairs.

    Attributes:
        kept: positions of the pairs that passed, ascending.
        rejected: of the others, position to name of the filter and its reason.
        seconds: by filter, the time it took.
        judged: by filter, the pairs that reached it.
    """

    kept: np.ndarray
    rejected: dict[int, tuple[str, str]] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)
    judged: dict[str, int] = field(default_factory=dict)


def check_filters(filters: Mapping[str, Filter], langs: tuple[str, str]) -> None:
    """Find out before long work begins what only the languages can tell.

    Raises:
        InputError: if a filter cannot judge these languages, or a package that it needs is missing.
    """
    for criterion in filters.values():
        criterion.reasons(Batch([], langs))


def run_cascade(filters: Mapping[str, Filter], batch: Batch) -> Outcome:
    """Run filters one after the other, each on what the ones before it left."""
    outcome = Outcome(kept=np.arange(len(batch)))
    for name, criterion in filters.items():
        start = time.perf_counter()
        reasons = criterion.reasons(batch)
        passed = np.array([reason is None for reason in reasons], dtype=bool)
        for row in np.flatnonzero(~passed).tolist():
            outcome.rejected[int(outcome.kept[row])] = (name, str(reasons[row]))
        outcome.judged[name] = len(batch)
        if not passed.all():
            outcome.kept, batch = outcome.kept[passed], batch.take(np.flatnonzero(passed))
        outcome.seconds[name] = time.perf_counter() - start
    return outcome
