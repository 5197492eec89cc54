"""What the figures of several systems show: which is the best beyond chance, and what may be said of all."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from fairseq_ext.metrics.bootstrap import SIGNIFICANT
from fairseq_ext.report.records import Measured

BETTER, WORSE = "▲", "▼"
NOT_SHOWN = "not shown"
HOW_SHOWN = (
    f"Where both have several runs, yes and no are shown by these (Welch’s t-test, p < {SIGNIFICANT:g}), and "
    f"“{NOT_SHOWN}” is a difference within their spread; a single run is compared as it is."
)


def shown_best(
    found: Mapping[str, Measured],
    best: Callable[..., Any],
    marks: Mapping[str, str] | None = None,
    baseline: str = "",
) -> str | None:
    """The best of some, if it is shown to be better than every other; None if it is not, or if it is alone.

    Two are told apart by their runs (Welch's t-test, two-sided, not corrected for the number of comparisons), so single
    runs never are; the baseline and another by the test that the marks are of.

    Args:
        found: figures by name.
        best: ``min`` or ``max``.
        marks: :data:`BETTER` or :data:`WORSE` by name, where a difference to the baseline is significant.
        baseline: the name of that; empty if nothing was tested against it.
    """
    if len(found) < 2:
        return None
    first = best(found, key=lambda name: found[name].mean)
    given = marks or {}

    def is_shown(other: str) -> bool:
        if other == baseline:
            return given.get(first) == BETTER
        if first == baseline:
            return given.get(other) == WORSE
        return are_apart(found[first], found[other])

    return first if all(is_shown(name) for name in found if name != first) else None


def have_runs(*figures: Measured) -> bool:
    """Whether each is of several runs, so that these can tell them apart."""
    return all(figure.sd is not None for figure in figures)


def are_apart(one: Measured, other: Measured) -> bool:
    """Whether the means of two differ by more than their runs do; never shown by a single run."""
    if not have_runs(one, other):
        return False
    if one.sd == other.sd == 0:
        return one.mean != other.mean
    # Imported here because every command of the package would wait for it.
    from scipy.stats import ttest_ind_from_stats

    samples = (one.mean, one.sd, one.runs, other.mean, other.sd, other.runs)
    return bool(ttest_ind_from_stats(*samples, equal_var=False).pvalue < SIGNIFICANT)


def is_lower(one: Measured, other: Measured) -> str:
    """Whether one figure is lower than another: ``yes``, ``no``, or :data:`NOT_SHOWN` by the runs of both."""
    if have_runs(one, other) and not are_apart(one, other):
        return NOT_SHOWN
    return "yes" if one.mean < other.mean else "no"


def describe_range(found: Mapping[str, Measured], best: Callable[..., Any], baseline: str = "") -> str:
    """From which to which figure some have, the better end first and the baseline apart; a winner only if it is shown.

    Args:
        found: figures by name, at least one.
        best: ``min`` or ``max``.
        baseline: what stands apart, if it is among them.
    """
    ranked = sorted((name for name in found if name != baseline), key=lambda name: found[name].mean)
    ends = dict.fromkeys([ranked[0], ranked[-1]] if best is min else [ranked[-1], ranked[0]]) if ranked else {}
    said = " to ".join(f"{found[name].mean:.2f} ({name})" for name in ends)
    against = f"{baseline} {found[baseline].mean:.2f}" if baseline in found else ""
    if winner := shown_best(found, best):
        against += f"{', ' if against else ''}{winner} shown to be the best"
    return "; ".join(part for part in (said, against) if part)
