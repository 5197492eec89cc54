"""Measured values as tidy records, one per line of JSON: recipes write them, tables and figures select from them."""

from __future__ import annotations

import json
import statistics
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from fairseq_ext.inputs.errors import InputError

if TYPE_CHECKING:
    from pydantic import ConfigDict

RECORDS_FILE = "records.jsonl"
_Row = TypeVar("_Row")


class Row:
    """Base of dataclasses that are lines of a file; pydantic reads them strictly."""

    __pydantic_config__: ClassVar[ConfigDict] = {"extra": "forbid", "strict": True, "allow_inf_nan": False}


@dataclass(frozen=True, kw_only=True)
class Record(Row):
    """One measured value; an attribute that does not apply is empty."""

    system: str = ""
    run: str = ""  # one of the system's trainings
    seed: int | None = None
    domain: str = ""  # or a test set, or an epoch
    metric: str
    value: float  # in full precision
    n: int | None = None  # sentences, tokens or examples


@dataclass(frozen=True)
class Mean:
    """A mean over runs, and their sample standard deviation; None for a single run."""

    value: float
    sd: float | None = None

    @classmethod
    def of(cls, values: Collection[float]) -> Mean | None:
        """The mean of the values of runs; None if there are none."""
        if not values:
            return None
        return cls(statistics.fmean(values), statistics.stdev(values) if len(values) > 1 else None)


@dataclass(frozen=True)
class Records:
    """Records with the queries of tables. A run has one value for each metric and domain."""

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
        """The value of each run, or its average over several domains, for runs that were measured on all of them."""
        found = [self._values.get((system, metric, domain), {}) for domain in domains or ("",)]
        runs = [run for run in found[0] if all(run in records for records in found)]
        return {run: statistics.fmean(records[run].value for records in found) for run in runs}

    def mean(self, system: str, metric: str, *domains: str) -> Mean | None:
        """Mean and standard deviation over runs of :meth:`by_run`; None if nothing was measured."""
        return Mean.of(self.by_run(system, metric, *domains).values())

    def value(self, system: str, metric: str, *domains: str) -> float | None:
        """The mean over runs, without a standard deviation."""
        mean = self.mean(system, metric, *domains)
        return mean.value if mean else None

    def domains(self, metric: str) -> list[str]:
        """The domains of a metric, in the order of the records."""
        return list(dict.fromkeys(record.domain for record in self.all if record.metric == metric))

    def systems(self, metric: str) -> list[str]:
        """The systems with a metric, in the order of the records."""
        return list(dict.fromkeys(record.system for record in self.all if record.metric == metric))


def write_records(path: Path, records: Iterable[Record]) -> None:
    """Write records as lines of JSON, in their order."""
    write_rows(path, records)


def read_records(path: Path) -> Records:
    """Read what :func:`write_records` wrote."""
    return Records(read_rows(path, Record))


def write_rows(path: Path, rows: Iterable[Any]) -> None:
    """Write dataclasses as lines of JSON, in their order."""
    lines = (json.dumps(asdict(row), ensure_ascii=False) + "\n" for row in rows)
    path.write_text("".join(lines), encoding="utf-8", newline="\n")


def read_rows(path: Path, kind: type[_Row]) -> list[_Row]:
    """Read what :func:`write_rows` wrote."""
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
            f"{place}: is not a {kind.__name__.lower()} of this version; measure again ({reason})"
        ) from None
    return rows
