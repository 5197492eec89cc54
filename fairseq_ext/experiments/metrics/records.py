"""Measured values as tidy records in JSON Lines. Recipes write records; tables and figures select from them."""

from __future__ import annotations

import json
import statistics
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, TypeVar

from pydantic import ConfigDict, TypeAdapter

from fairseq_ext.base.errors import InputError

RECORDS_FILE = "records.jsonl"
_Row = TypeVar("_Row")


class Row:
    """Base class of dataclasses that are stored as lines of a file. pydantic validates them strictly."""

    __pydantic_config__: ClassVar[ConfigDict] = {"extra": "forbid", "strict": True, "allow_inf_nan": False}


Dimension = str | int | float | bool


@dataclass(frozen=True, kw_only=True)
class Record(Row):
    """A measured value. Attributes that do not apply are empty.

    Attributes:
        run: training run of the system.
        domain: domain or test set.
        value: in full precision.
        n: number of sentences, tokens or examples.
        dims: further dimensions of the metric by name, such as ``{"update": 200}``.
    """

    system: str = ""
    run: str = ""
    seed: int | None = None
    domain: str = ""
    metric: str
    value: float
    n: int | None = None
    dims: Mapping[str, Dimension] = field(default_factory=dict, hash=False)


@dataclass(frozen=True)
class Mean:
    """Mean and sample standard deviation over runs; the latter is None for a single run."""

    value: float
    sd: float | None = None

    @classmethod
    def of(cls, values: Collection[float]) -> Mean | None:
        """Compute the mean of the values of runs. Return None if there are none."""
        if not values:
            return None
        return cls(statistics.fmean(values), statistics.stdev(values) if len(values) > 1 else None)


_Key = tuple[str, str, str, frozenset[tuple[str, Dimension]]]


@dataclass(frozen=True)
class Records:
    """Records and queries for tables. A run has one value for each metric, domain and set of dimensions.

    ``dims`` of queries for values are all dimensions of the records; others select records with at least these.
    """

    all: Sequence[Record] = ()

    def __iter__(self) -> Iterator[Record]:
        return iter(self.all)

    @cached_property
    def _by_key(self) -> dict[_Key, dict[str, Record]]:
        by_key: dict[_Key, dict[str, Record]] = {}
        for record in self.all:
            key = record.system, record.metric, record.domain, frozenset(record.dims.items())
            by_key.setdefault(key, {})[record.run] = record
        return by_key

    @cached_property
    def _by_metric(self) -> dict[str, list[Record]]:
        by_metric: dict[str, list[Record]] = {}
        for record in self.all:
            by_metric.setdefault(record.metric, []).append(record)
        return by_metric

    def of(self, system: str, metric: str, domain: str = "", **dims: Dimension) -> list[Record]:
        """Return the records of a system, one per run."""
        return list(self._by_key.get((system, metric, domain, frozenset(dims.items())), {}).values())

    def by_run(self, system: str, metric: str, *domains: str, **dims: Dimension) -> dict[str, float]:
        """Return the value of each run, averaged over domains. Runs not measured on all domains are omitted."""
        by_domain = [
            {record.run: record.value for record in self.of(system, metric, d, **dims)} for d in domains or [""]
        ]
        runs = [run for run in by_domain[0] if all(run in values for values in by_domain)]
        return {run: statistics.fmean(values[run] for values in by_domain) for run in runs}

    def mean(self, system: str, metric: str, *domains: str, **dims: Dimension) -> Mean | None:
        """Return the mean and standard deviation over runs of :meth:`by_run`; None without measurements."""
        return Mean.of(self.by_run(system, metric, *domains, **dims).values())

    def value(self, system: str, metric: str, *domains: str, **dims: Dimension) -> float | None:
        """Return the mean over runs; None without measurements."""
        mean = self.mean(system, metric, *domains, **dims)
        return mean.value if mean else None

    def select(self, metric: str, system: str | None = None, /, **dims: Dimension) -> list[Record]:
        """Return the records of a metric, of one system or of all, in order."""
        of_metric = self._by_metric.get(metric, [])
        return [row for row in of_metric if system in (None, row.system) and dims.items() <= row.dims.items()]

    def domains(self, metric: str, **dims: Dimension) -> list[str]:
        """Return the domains of a metric, in the order of the records."""
        return list(dict.fromkeys(record.domain for record in self.select(metric, **dims)))

    def systems(self, metric: str) -> list[str]:
        """Return the systems with a metric, in the order of the records."""
        return list(dict.fromkeys(record.system for record in self.select(metric)))


def read_records(path: Path) -> Records:
    """Read records written by :func:`write_rows`."""
    return Records(read_rows(path, Record))


def write_rows(path: Path, rows: Iterable[Any]) -> None:
    """Write dataclasses as JSON Lines, in order."""
    lines = (json.dumps(asdict(row), ensure_ascii=False) + "\n" for row in rows)
    path.write_text("".join(lines), encoding="utf-8", newline="\n")


def read_rows(path: Path, kind: type[_Row]) -> list[_Row]:
    """Read dataclasses written by :func:`write_rows`."""
    read_row = TypeAdapter(kind).validate_json
    rows, place = [], str(path)
    try:
        with path.open(encoding="utf-8") as lines:
            for number, line in enumerate(lines, start=1):
                place = f"{path}, line {number}"
                rows.append(read_row(line))
    except (OSError, ValueError) as error:
        reason = " ".join(str(error).split())
        raise InputError(
            f"{place}: is not a valid {kind.__name__.lower()} of this version; measure again ({reason})"
        ) from None
    return rows
