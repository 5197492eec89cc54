"""Comparisons of systems with baselines: difference, 95 % interval and p-value, over sentences or over runs."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from operator import attrgetter
from pathlib import Path

import numpy as np

from fairseq_ext.experiments.metrics.bootstrap import is_significant, p_value
from fairseq_ext.experiments.metrics.records import Records, Row, read_rows
from fairseq_ext.experiments.metrics.tables import Column, Table

COMPARISONS_FILE = "comparisons.jsonl"
_LEVEL = 0.95
_NOTE = (
    "Difference: system minus baseline, of the means over runs. The interval and the two-sided p are not corrected for "
    "the number of comparisons."
)
_TESTS = {
    "sentences": "Both are from a paired bootstrap over sentences.",
    "runs": "Both are from Welch's t-test over runs; single or identical runs have none.",
}


@dataclass(frozen=True)
class Comparison(Row):
    """Comparison of a system with a baseline; the interval and p are None without a test."""

    system: str
    baseline: str
    metric: str
    domain: str  # domain, or another part of the test data; empty for all
    difference: float  # system minus baseline
    low: float | None = None  # bounds of the 95 % interval
    high: float | None = None
    p: float | None = None  # two-sided
    n: int | None = None  # number of sentences or tokens
    over: str = "runs"  # unit of the test: ``sentences`` or ``runs``


def compare_runs(records: Records, system: str, baseline: str, metric: str, domain: str = "") -> Comparison | None:
    """Compare two systems over their runs (Welch's t-test). Return None if one was not measured.

    If a system has a single run, only the difference is computed, without interval and p.
    """
    one, other = (list(records.by_run(name, metric, domain).values()) for name in (system, baseline))
    if not one or not other:
        return None
    difference, n = statistics.fmean(one) - statistics.fmean(other), records.of(system, metric, domain)[0].n
    return Comparison(system, baseline, metric, domain, difference, *_welch(one, other), n)


def compare_resamples(
    system: str, baseline: str, metric: str, domain: str, differences: np.ndarray, n: int
) -> Comparison:
    """Compare two systems with a paired bootstrap over n sentences.

    ``differences`` are system minus baseline, first on all sentences, then on each of R resamples.

    Shape:
        differences: 1+R
    """
    first, resamples = float(differences[0]), differences[1:]
    if not len(resamples):
        return Comparison(system, baseline, metric, domain, first, n=n, over="sentences")
    low, high = np.quantile(resamples, [(1 - _LEVEL) / 2, (1 + _LEVEL) / 2]).tolist()
    return Comparison(system, baseline, metric, domain, first, low, high, p_value(resamples), n, "sentences")


def comparison_table(comparisons: Sequence[Comparison]) -> Table:
    """Create a table with one row for each comparison."""
    columns = [
        Column("Baseline", attrgetter("baseline"), is_text=True),
        Column("Metric", attrgetter("metric"), is_text=True),
        Column("Set", lambda row: row.domain or "all", is_text=True),
        Column("Difference", attrgetter("difference"), "+.2f"),
        Column("95 % interval", lambda row: _interval(row, 2)),
        Column("p", lambda row: "not tested" if row.p is None else f"{row.p:.3f}", is_text=False),
        Column("n", attrgetter("n"), ",d"),
    ]
    tests = {comparison.over for comparison in comparisons}
    notes = [_NOTE, *(text for over, text in _TESTS.items() if over in tests)]
    return Table("Systems against baselines", "System", comparisons, columns, notes, attrgetter("system"))


def read_comparisons(path: Path) -> list[Comparison]:
    """Read comparisons written by :func:`write_rows`; none if the file does not exist yet."""
    return read_rows(path, Comparison) if path.exists() else []


def _welch(one: Sequence[float], other: Sequence[float]) -> tuple[float | None, float | None, float | None]:
    """Return the 95 % interval and the p-value of a difference of means.

    All are None if a system has a single run, or if equal runs of both say nothing about the variance.
    """
    if min(len(one), len(other)) < 2 or len(set(one)) == len(set(other)) == 1:
        return None, None, None
    from scipy.stats import ttest_ind  # takes a second to import

    test = ttest_ind(one, other, equal_var=False)
    interval = test.confidence_interval(_LEVEL)
    return float(interval.low), float(interval.high), float(test.pvalue)


def show_difference(comparison: Comparison, unit: str = "") -> str:
    """Write a difference with its interval, in brackets: ``+4.9 chrF (+4.5 to +5.3)``."""
    interval = _interval(comparison, 1)
    return " ".join(filter(None, [signed(comparison.difference, 1), unit, f"({interval})" if interval else ""]))


def mark(comparison: Comparison) -> str:
    """Return ▲ for better, ▼ for worse (p < 0.05), otherwise an empty string; lower perplexity and TER are better."""
    if not is_significant(comparison.p):
        return ""
    return "▲" if (comparison.difference > 0) != comparison.metric.startswith(("perplexity", "TER")) else "▼"


def signed(number: float, digits: int) -> str:
    """Write a number with its sign; zero is positive."""
    return f"{round(number, digits) + 0.0:+.{digits}f}".replace("-", "−")


def _interval(comparison: Comparison, digits: int) -> str | None:
    if comparison.low is None or comparison.high is None:
        return None
    return f"{signed(comparison.low, digits)} to {signed(comparison.high, digits)}"
