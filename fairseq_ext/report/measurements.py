"""Measured values as tidy records, one per line of JSON: recipes write them, tables and figures select from them."""

from __future__ import annotations

import json
import math
import statistics
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from fairseq_ext.inputs.errors import InputError

RECORDS_FILE = "records.jsonl"


@dataclass(frozen=True, kw_only=True)
class Record:
    """One measured value; an attribute that does not apply is empty.

    Attributes:
        system: what was measured.
        run: the training of it.
        seed: of that training.
        domain: the domain, set or epoch that it was measured on.
        metric: what the value is.
        value: in full precision.
        n: how many sentences, tokens or examples it is of.
    """

    system: str = ""
    run: str = ""
    seed: int | None = None
    domain: str = ""
    metric: str
    value: float
    n: int | None = None


@dataclass(frozen=True)
class Mean:
    """A mean over runs.

    Attributes:
        value: the mean.
        sd: sample standard deviation over runs; None for a single run.
        runs: how many there are.
    """

    value: float
    sd: float | None = None
    runs: int = 1

    @classmethod
    def of(cls, values: Collection[float]) -> Mean | None:
        """The mean of the values of runs; None if there are none."""
        if not values:
            return None
        return cls(statistics.fmean(values), statistics.stdev(values) if len(values) > 1 else None, len(values))


@dataclass(frozen=True)
class Records:
    """Records, and what tables ask of them. A run has one value of each metric and domain."""

    all: Sequence[Record] = ()

    def __iter__(self) -> Iterator[Record]:
        return iter(self.all)

    @cached_property
    def _values(self) -> dict[tuple[str, str, str], dict[str, Record]]:
        found: dict[tuple[str, str, str], dict[str, Record]] = {}
        for record in self.all:
            found.setdefault((record.system, record.metric, record.domain), {})[record.run] = record
        return found

    def of(self, system: str, metric: str, domain: str = "") -> list[Record]:
        """The records of a system, one per run."""
        return list(self._values.get((system, metric, domain), {}).values())

    def by_run(self, system: str, metric: str, *domains: str) -> dict[str, float]:
        """The value of each run; of several domains, the average of each run that was measured on all of them."""
        found = [self._values.get((system, metric, domain), {}) for domain in domains or ("",)]
        runs = [run for run in found[0] if all(run in records for records in found)]
        return {run: statistics.fmean(records[run].value for records in found) for run in runs}

    def mean(self, system: str, metric: str, *domains: str) -> Mean | None:
        """Mean and standard deviation over runs of :meth:`by_run`; None if nothing was measured."""
        return Mean.of(self.by_run(system, metric, *domains).values())

    def domains(self, metric: str) -> list[str]:
        """The domains that a metric was measured on, in the order of the records."""
        return list(dict.fromkeys(record.domain for record in self.all if record.metric == metric))

    def systems(self, metric: str) -> list[str]:
        """The systems that a metric was measured of, in the order of the records."""
        return list(dict.fromkeys(record.system for record in self.all if record.metric == metric))


def write_records(path: Path, records: Iterable[Record]) -> None:
    """Write records as lines of JSON, in their order."""
    lines = (json.dumps(asdict(record), ensure_ascii=False) + "\n" for record in records)
    path.write_text("".join(lines), encoding="utf-8", newline="\n")


def read_records(path: Path) -> Records:
    """Read what :func:`write_records` wrote.

    Raises:
        InputError: naming the file and the line that holds no record of this version.
    """
    records, place = [], str(path)
    try:
        with path.open(encoding="utf-8") as lines:
            for number, line in enumerate(lines, start=1):
                place = f"{path}, line {number}"
                records.append(_record(json.loads(line)))
    except (OSError, ValueError, TypeError, RecursionError) as error:
        raise InputError(f"{place}: holds no record of this version ({error}); measure again") from None
    return Records(records)


_TYPES = {"value": (int, float), "seed": (int, type(None)), "n": (int, type(None))}


def _record(content: dict[str, Any]) -> Record:
    record = Record(**content)
    for name, value in asdict(record).items():
        if isinstance(value, bool) or not isinstance(value, _TYPES.get(name, str)):
            raise ValueError(f"{name}: {value!r}")
    if not math.isfinite(record.value):
        raise ValueError(f"value: {record.value}")
    return record
