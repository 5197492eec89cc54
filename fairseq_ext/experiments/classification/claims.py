"""What Houlsby et al. (2019) found, beside what was measured here, by numbers alone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from fairseq_ext.experiments.classification.pictures import differences_to
from fairseq_ext.experiments.classification.results import (
    DIFFERENCES_FILE,
    METRICS_FILE,
    SHARE,
    Method,
    TaskDesign,
    TaskResults,
)
from fairseq_ext.experiments.classification.tables import percent
from fairseq_ext.metrics.bootstrap import is_significant
from fairseq_ext.report.content import Below, Cell, Missing, Row, Table
from fairseq_ext.report.page import signed

NOT_MEASURED = "not measured"
_TITLE = "The paper’s findings"
_CLOSE = 0.4  # points: how near to full fine-tuning the paper's adapters come


@dataclass(frozen=True)
class Finding:
    """A finding: in words, the paper's figures, and how to answer it here."""

    text: str
    paper: str
    answer: Callable[[TaskResults, TaskDesign], str]


def findings(results: TaskResults, design: TaskDesign) -> Table | Missing:
    """One row a finding."""
    rows = [
        Row(finding.text, [Cell(finding.paper), Cell(finding.answer(results, design) or NOT_MEASURED)])
        for finding in FINDINGS
    ]
    if all(row.cells[1].text == NOT_MEASURED for row in rows):
        return Missing(_TITLE, NOT_MEASURED)
    notes = [
        "Averages are of the main metrics over all tasks, in percent, on the test sets. p is that of a paired "
        "bootstrap over the test sets, of the difference to full fine-tuning, where all main metrics are accuracies. "
        "The paper has BERT of 110 or 330 million parameters, other tasks, learning rates and sizes chosen by task, "
        "and the mean or best of several seeds."
    ]
    sources = [METRICS_FILE.format("*"), DIFFERENCES_FILE]
    return Table(_TITLE, "Finding", ["In the paper", "Here"], [("", rows)], is_text=True, below=Below(notes, sources))


def best_adapters(results: TaskResults, design: TaskDesign) -> Method | None:
    """The adapters with the highest average on the validation sets."""
    averages = {m.name: results.average(design, m, "valid") for m in design.of_tuning("adapters")}
    known = {name: average for name, average in averages.items() if average is not None}
    return design.methods[max(known, key=lambda name: known[name])] if known else None


def adapters_are_close(results: TaskResults, design: TaskDesign) -> str:
    """Whether the adapters that do best on the validation sets are near full fine-tuning."""
    adapters, full = best_adapters(results, design), design.full
    pair = [results.average(design, m) if m else None for m in (adapters, full)]
    if adapters is None or full is None or pair[0] is None or pair[1] is None:
        return ""
    difference = pair[0] - pair[1]
    verdict = "yes" if difference >= -_CLOSE - 1e-9 else "no"
    said = _difference(results, adapters.name, difference)
    share = percent(results.over_tasks(adapters, SHARE) or 0)
    return f"{verdict}: {adapters.name} {pair[0]:.1f}, {full.name} {pair[1]:.1f}{said}; {share} of the parameters"


def few_parameters_serve_all(results: TaskResults, design: TaskDesign) -> str:
    """What all tasks take together."""
    methods = [m for m in (best_adapters(results, design), design.full) if m]
    multiples = {m.name: multiple for m in methods if (multiple := results.multiple(design, m))}
    if len(multiples) < 2:
        return ""
    own, whole = multiples.values()
    said = ", ".join(f"{name} {multiple:.2f}×" for name, multiple in multiples.items())
    return f"{'yes' if own < whole else 'no'}: {said} for {len(design.tasks)} tasks"


def top_layers_need_more(results: TaskResults, design: TaskDesign) -> str:
    """How many parameters the fewest top layers train that do as well as the adapters."""
    adapters = best_adapters(results, design)
    average = results.average(design, adapters) if adapters else None
    tops = design.of_tuning("top") + design.of_tuning("full")
    known = {m.name: found for m in tops if (found := results.average(design, m)) is not None}
    if adapters is None or average is None or not known:
        return ""
    own = results.over_tasks(adapters, "trained") or 1
    start = f"{adapters.name} {average:.1f} with {own:,.0f} parameters"
    enough = [design.methods[name] for name, found in known.items() if found >= average]
    if not enough:
        best = max(known, key=lambda name: known[name])
        return f"yes: {start}; no number of layers does as well ({best} {known[best]:.1f})"
    least = min(enough, key=lambda method: results.over_tasks(method, "trained") or 0)
    ratio = (results.over_tasks(least, "trained") or 0) / own
    verdict = "yes" if ratio > 1 else "no"
    return f"{verdict}: {start}, {least.name} {known[least.name]:.1f} with {ratio:.1f} times as many"


def norms_are_worse(results: TaskResults, design: TaskDesign) -> str:
    """Whether layer norms alone are behind full fine-tuning."""
    norms, full = next(iter(design.of_tuning("norms")), None), design.full
    pair = [results.average(design, m) if m else None for m in (norms, full)]
    if norms is None or pair[0] is None or pair[1] is None:
        return ""
    difference, p = pair[0] - pair[1], results.records.mean(norms.name, "p")
    verdict = "no" if difference >= 0 else "yes" if is_significant(p) else "not shown"
    by_task = differences_to(results, design, norms, full)
    behind = f"behind in {sum(value < 0 for value in by_task)} of {len(by_task)} tasks"
    return f"{verdict}: {pair[0]:.1f}, {pair[1]:.1f}{_difference(results, norms.name, difference)}, {behind}"


def _difference(results: TaskResults, method: str, difference: float) -> str:
    tested = results.records.mean(method, "p")
    p = "" if tested is None else ", p < 0.05" if is_significant(tested) else f", p = {tested:.2f}"
    return f" ({signed(difference)}{p})"


FINDINGS = (
    Finding("Adapters are within 0.4 points of full fine-tuning", "yes: 80.0, 80.4 (GLUE, 3.6%); 73.3, 73.7 (17 tasks, "
            "1.1%)", adapters_are_close),
    Finding("One base serves all tasks with few parameters more", "yes: 1.3× against 9× for 9 tasks; 1.19× against 17× "
            "for 17", few_parameters_serve_all),
    Finding("Tuning the top layers needs more parameters for as much", "yes: MNLI, adapters 83.7 with 2 M, the top "
            "layer 77.8 with 9 M", top_layers_need_more),
    Finding("Layer norms alone are worse than full fine-tuning", "yes: −3.5 on CoLA, −4 on MNLI", norms_are_worse),
)  # fmt: skip
