"""What an experiment shows, in a sentence or two: differences to the baseline, by what the test says."""

from __future__ import annotations

from collections.abc import Mapping

from fairseq_ext.experiments.translation.results import Design, Results
from fairseq_ext.metrics.bootstrap import SIGNIFICANT, is_significant
from fairseq_ext.report.page import signed

_LISTED = 4  # names of a verdict; the others are counted
# In this order. The spaces do not break.
_BETTER, _WORSE = (f"Shown to be {what} (p\u00a0<\u00a0{SIGNIFICANT:g})" for what in ("better", "worse"))
_OPEN, _UNTESTED = "No difference shown", "Not tested"


def headline(results: Results, design: Design) -> str:
    """The outputs that are not told the domain, by whether they are shown to be better than the baseline."""
    if not results.metrics:
        return "Nothing has been scored yet."
    metric = results.metrics[0]
    scores = {name: mean for name in design.main if (mean := results.records.mean(name, metric, "AVG")) is not None}
    competing = {name: mean for name, mean in scores.items() if name not in design.told} or scores
    if not competing:
        return "None of the outputs has translated all domains."
    left_out = " Outputs that are told the domain are left out." if len(competing) < len(scores) else ""
    baseline = design.baseline
    if baseline not in competing:
        return f"{metric}, averaged over the domains: {_listed(competing, '.2f')}.{left_out}"
    gains = {name: results.gain(name, baseline, metric, "AVG") or 0.0 for name in competing if name != baseline}
    verdicts = {name: _verdict(gain, results.p(name, metric, "AVG")) for name, gain in gains.items()}
    parts = [f"{metric}, averaged over the domains, against {baseline} ({competing[baseline]:.2f})."]
    for heading in (_BETTER, _WORSE, _OPEN, _UNTESTED):
        found = {name: gain for name, gain in gains.items() if verdicts[name] == heading}
        parts += [f"{heading}: {_listed(found)}."] if found else []
    return " ".join(parts) + left_out


def _verdict(gain: float, p: float | None) -> str:
    if p is None:
        return _UNTESTED
    if not is_significant(p) or not gain:
        return _OPEN
    return _BETTER if gain > 0 else _WORSE


def _listed(figures: Mapping[str, float], form: str = "") -> str:
    """Names with their figures, the largest first."""
    ranked = sorted(figures, key=lambda name: -figures[name])
    parts = [f"{name} {format(figures[name], form) if form else signed(figures[name])}" for name in ranked]
    more = [f"{len(parts) - _LISTED} more"] if len(parts) > _LISTED else []
    return ", ".join([*parts[:_LISTED], *more])
