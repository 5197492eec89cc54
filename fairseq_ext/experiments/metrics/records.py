"""Measured values as tidy records in JSON Lines. Recipes write records; tables and figures select from them."""

from __future__ import annotations

import json
import statistics
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from fairseq_ext.base.errors import InputError

if TYPE_CHECKING:
    from pydantic import ConfigDict

RECORDS_FILE = "records.jsonl"
_Row = TypeVar("_Row")


class Row:
    """Base class of dataclasses that are stored as lines of a file. pydantic validates them strictly."""

    __pydantic_config__: ClassVar[ConfigDict] = {"extra": "forbid", "strict": True, "allow_inf_nan": False}


@dataclass(frozen=True, kw_only=True)
class Record(Row):
    """A measured value. Attributes that do not apply are empty."""

    system: str = ""
    run: str = ""  # training run of the system
    seed: int | None = None
    domain: str = ""  # domain, test set or epoch
    metric: str
    value: float  # full precision
    n: int | None = None  # number of sentences, tokens or examples


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


@dataclass(frozen=True)
class Records:
    """Records and queries for tables. A run has one value for each metric and domain."""

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
        """Return the records of a system, one per run."""
        return list(self._values.get((system, metric, domain), {}).values())

    def by_run(self, system: str, metric: str, *domains: str) -> dict[str, float]:
        """Return the value of each run, averaged over domains. Runs not measured on all domains are omitted."""
        found = [self._values.get((system, metric, domain), {}) for domain in domains or ("",)]
        runs = [run for run in found[0] if all(run in records for records in found)]
        return {run: statistics.fmean(records[run].value for records in found) for run in runs}

    def mean(self, system: str, metric: str, *domains: str) -> Mean | None:
        """Return the mean and standard deviation over runs of :meth:`by_run`; None without measurements."""
        return Mean.of(self.by_run(system, metric, *domains).values())

    def value(self, system: str, metric: str, *domains: str) -> float | None:
        """Return the mean over runs; None without measurements."""
        mean = self.mean(system, metric, *domains)
        return mean.value if mean else None

    def domains(self, metric: str) -> list[str]:
        """Return the domains of a metric, in the order of the records."""
        return list(dict.fromkeys(record.domain for record in self.all if record.metric == metric))

    def systems(self, metric: str) -> list[str]:
        """Return the systems with a metric, in the order of the records."""
        return list(dict.fromkeys(record.system for record in self.all if record.metric == metric))


def write_records(path: Path, records: Iterable[Record]) -> None:
    """Write records as JSON Lines, in order."""
    write_rows(path, records)


def read_records(path: Path) -> Records:
    """Read records written by :func:`write_records`."""
    return Records(read_rows(path, Record))


def write_rows(path: Path, rows: Iterable[Any]) -> None:
    """Write dataclasses as JSON Lines, in order."""
    lines = (json.dumps(asdict(row), ensure_ascii=False) + "\n" for row in rows)
    path.write_text("".join(lines), encoding="utf-8", newline="\n")


def read_rows(path: Path, kind: type[_Row]) -> list[_Row]:
    """Read dataclasses written by :func:`write_rows`."""
    # Takes a tenth of a second to import.
    from pydantic import TypeAdapter

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
