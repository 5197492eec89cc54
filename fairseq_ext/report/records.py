"""Measured values as tidy records, and what tables ask of them: a figure over runs, an average over domains.

The steps of an experiment leave results of their own shapes; every kind makes records of their numbers once, and its
tables and claims are declared over these.
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from fairseq_ext.inputs.errors import InputError
from fairseq_ext.inputs.json_file import read_json

RECORDS_FILE = "records.jsonl"


@dataclass(frozen=True, order=True)
class Record:
    """One measured value; what it is not of is empty.

    Attributes:
        system: what was measured.
        run: the training of it.
        domain: the text that it was measured on.
        metric: what the value is.
        value: in full precision.
        source: the file that it is from, relative to the experiment's folder.
    """

    system: str
    run: str
    domain: str
    metric: str
    value: float
    source: str


@dataclass(frozen=True)
class Measured:
    """A figure.

    Attributes:
        mean: over training runs.
        sd: their sample standard deviation; None for a single run.
        runs: how many there are.
    """

    mean: float
    sd: float | None = None
    runs: int = 1


@dataclass(frozen=True)
class Records:
    """All values that an experiment has measured; a run has one of each metric and domain."""

    all: Sequence[Record] = ()

    def __iter__(self) -> Iterator[Record]:
        return iter(self.all)

    @cached_property
    def _values(self) -> Mapping[tuple[str, str, str], Mapping[str, float]]:
        values: dict[tuple[str, str, str], dict[str, float]] = {}
        for record in self.all:
            values.setdefault((record.system, record.metric, record.domain), {})[record.run] = record.value
        return values

    def by_run(self, system: str, metric: str, *domains: str) -> dict[str, float]:
        """A system's value of every run; of several domains, the average of every run that was measured on all."""
        found = [self._values.get((system, metric, domain), {}) for domain in domains or ("",)]
        runs = [run for run in found[0] if all(run in values for values in found)]
        return {run: statistics.fmean(values[run] for values in found) for run in runs}

    def figure(self, system: str, metric: str, *domains: str) -> Measured | None:
        """Mean and spread over runs of what :meth:`by_run` has; None if nothing was measured."""
        return over_runs(self.by_run(system, metric, *domains).values())

    def mean(self, system: str, metric: str, *domains: str) -> float | None:
        """The mean of :meth:`figure`."""
        found = self.figure(system, metric, *domains)
        return found.mean if found else None

    def of_systems(self, metric: str, *domains: str, spread: bool = True) -> Callable[[str], Measured | None]:
        """A column of a table whose rows are systems; without spread where runs differ for no reason of theirs."""

        def measured(system: str) -> Measured | None:
            found = self.figure(system, metric, *domains)
            return found if spread or found is None else Measured(found.mean)

        return measured

    def of_domains(self, metric: str, system: str = "") -> Callable[[str], Measured | None]:
        """A column of a table whose rows are domains."""
        return lambda domain: self.figure(system, metric, domain)


def over_runs(values: Iterable[float]) -> Measured | None:
    """The figure of one value a run; None if there are none."""
    values = list(values)
    if not values:
        return None
    sd = statistics.stdev(values) if len(values) > 1 else None
    return Measured(statistics.fmean(values), sd, len(values))


def write_records(path: Path, records: Iterable[Record]) -> None:
    """Write records as lines of JSON, sorted."""
    lines = (json.dumps(asdict(record), ensure_ascii=False) + "\n" for record in sorted(records))
    path.write_text("".join(lines), encoding="utf-8", newline="\n")


def read_records(path: Path) -> Records:
    """Read what :func:`write_records` wrote.

    Raises:
        InputError: naming the file and the line that holds no record.
    """
    records, place = [], f"{path}"
    try:
        with path.open(encoding="utf-8") as lines:
            for number, line in enumerate(lines, start=1):
                place = f"{path}, line {number}"
                records.append(_record(json.loads(line)))
    except (OSError, ValueError, TypeError, RecursionError) as error:
        raise InputError(f"{place}: holds no record ({error}); make the report again") from None
    return Records(records)


def _record(content: Any) -> Record:
    record = Record(**content)
    if not all(isinstance(value, (int, float) if name == "value" else str) for name, value in content.items()):
        raise ValueError("its value is a number, all else is text")
    return record


def read_result(path: Path) -> dict[str, Any] | None:
    """Read what a step measured; None if it is not there.

    Raises:
        InputError: if it is no JSON object.
    """
    if not path.is_file():
        return None
    return read_json(path, "make it again")


def results_by_name(work_dir: Path, pattern: str, names: Iterable[str]) -> dict[str, dict[str, Any]]:
    """Read the results of several, a file each; those that are not there are left out.

    Args:
        work_dir: the experiment's.
        pattern: the files in it, with ``{}`` in place of a name.
        names: of runs, domains or whatever else.

    Raises:
        InputError: if one of them is no JSON object.
    """
    found = {name: read_result(work_dir / pattern.format(name)) for name in names}
    return {name: result for name, result in found.items() if result is not None}
