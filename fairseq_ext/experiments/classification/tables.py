"""The tables of a report on tasks, numbered as in Houlsby et al. (2019) where there is such a table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from fairseq_ext.experiments.classification.results import (
    DIFFERENCES_FILE,
    MAIN,
    MAJORITY,
    METRICS_FILE,
    SHARE,
    TaskDesign,
    TaskResults,
    on,
)
from fairseq_ext.metrics.bootstrap import SIGNIFICANT, is_significant
from fairseq_ext.metrics.classification import describe_metric
from fairseq_ext.report.content import Below, Missing, Table
from fairseq_ext.report.figures import (
    BEST,
    SPREAD,
    Column,
    Figure,
    Words,
    figure_table,
)
from fairseq_ext.report.significance import BETTER, WORSE

Shown = Table | Missing
AVERAGE = "average"
_GROUPS = (
    ("trains part of the base, or all of it", ("full", "top")),
    ("leaves the base as it is", ("norms", "adapters")),
)

_SHORT = {
    "accuracy": "Accuracy",
    "f1": "F1",
    "matthews": "Matthews’ correlation",
    "pearson": "Pearson’s correlation",
    "spearman": "Spearman’s correlation",
}


def main_results(results: TaskResults, design: TaskDesign) -> Shown:
    """Tables 1 and 2: what every method trains, and the main metric of every task on the test sets."""
    title = "Tables 1 and 2. Results on the test sets"
    measured = [m for m in design.methods.values() if results.tasks_of(m)]
    if not measured:
        return Missing(title, "not available: no system has been measured")
    columns = [
        *_size_columns(results, design),
        *(_score_column(results, design, task) for task in design.tasks),
        _average_column(results, design),
    ]
    groups = [(heading, [m.name for m in measured if m.tuning in kinds]) for heading, kinds in _GROUPS]
    notes = [
        "In percent.",
        BEST,
        "Trained: parameters trained for a task, its head among them (mean over tasks), and their share of the base’s. "
        f"In all: what all {len(design.tasks)} tasks take together, in multiples of the base.",
        *_difference_note(results),
        SPREAD,
        *_remarks(results, [run for m in measured for runs in m.runs.values() for run in runs]),
    ]
    sources = [METRICS_FILE.format("*"), *([DIFFERENCES_FILE] if results.differences else [])]
    return figure_table(title, "System", columns, groups, Below(notes, sources))


def other_metrics(results: TaskResults, design: TaskDesign) -> list[Table]:
    """The metrics of the tasks that are not their main ones, on the test sets: a table a metric."""
    names = dict.fromkeys(name for metrics in design.tasks.values() for name in metrics[1:])
    tables = []
    for name in names:
        chosen = {task: name for task, metrics in design.tasks.items() if name in metrics[1:]}
        table = _metric_table(results, design, f"{_SHORT[name]} on the test sets", chosen, "test")
        tables += [table] if isinstance(table, Table) else []
    return tables


def validation(results: TaskResults, design: TaskDesign) -> Shown:
    """The main metrics on the validation sets, by which checkpoints are chosen."""
    chosen = {task: metrics[0] for task, metrics in design.tasks.items()}
    return _metric_table(results, design, "Main metrics on the validation sets", chosen, "valid")


def tasks(results: TaskResults, design: TaskDesign) -> Shown:
    """Table 3: the tasks."""
    title = "Table 3. The tasks"
    if not results.predictions:
        return Missing(title, "not available: nothing has been measured")
    headings = {"Training": "train", "Validation": "valid", "Test": "test"}
    of = results.records.of_domains
    columns = [
        *(Figure(heading, of(on("examples", split)), ",.0f") for heading, split in headings.items()),
        Figure("Labels", of("labels"), ".0f"),
        Figure("Most frequent", of(on(MAJORITY, "test")), ".1f"),
    ]
    notes = ["Most frequent: the share of the test set’s most frequent label, in percent; who always gives it is right "
             "so often."]  # fmt: skip
    rows = [task for task in design.tasks if results.records.figure("", on("examples", "test"), task)]
    return figure_table(title, "Task", columns, [("", rows)], Below(notes, [METRICS_FILE.format("*")]))


def percent(share: float) -> str:
    """A share in percent, small ones to more places."""
    return f"{100 * share:.2g}%" if share < 0.1 else f"{100 * share:.0f}%"


def _metric_table(results: TaskResults, design: TaskDesign, title: str, chosen: Mapping[str, str], split: str) -> Shown:
    """Methods by tasks: of each task the chosen metric, and the average where these are the main ones of all."""
    are_main = all(chosen.get(task) == metrics[0] for task, metrics in design.tasks.items())
    columns = [
        Figure(
            _heading(design, task) if are_main else task,
            results.records.of_systems(on(metric, split), task),
            ".1f",
            max,
        )
        for task, metric in chosen.items()
    ]
    columns += [_average_column(results, design, split)] if are_main else []
    names = [name for name in design.methods if any(column.of(name) for column in columns)]
    notes = ["In percent.", BEST, SPREAD]
    notes += _f1_note(results, [task for task, name in chosen.items() if name == "f1"])
    return figure_table(title, "System", columns, [("", names)], Below(notes, [METRICS_FILE.format("*")]))


def _heading(design: TaskDesign, task: str) -> str:
    """A task's name, with its metric where that is not the accuracy."""
    main = design.tasks[task][0]
    return task if main == "accuracy" else f"{task} ({_SHORT[main]})"


def _size_columns(results: TaskResults, design: TaskDesign) -> list[Column]:
    """What a method trains and takes."""

    def multiple(name: str) -> str | None:
        found = results.multiple(design, design.methods[name])
        return None if found is None else f"{found:.2f}×"

    return [
        Words("Trained", lambda name: f"{results.over_tasks(design.methods[name], 'trained') or 0:,.0f}"),
        Words("of base", lambda name: percent(results.over_tasks(design.methods[name], SHARE) or 0)),
        Words("In all", multiple),
    ]


def _score_column(results: TaskResults, design: TaskDesign, task: str) -> Figure:
    """The main metric of a task on its test set."""
    return Figure(
        _heading(design, task),
        results.records.of_systems(on(MAIN, "test"), task),
        ".1f",
        max,
        lambda name: _mark(results, name, task),
        _baseline(results),
    )


def _average_column(results: TaskResults, design: TaskDesign, split: str = "test") -> Figure:
    """The main metrics averaged over all tasks; differences were tested on the test sets."""
    return Figure(
        AVERAGE,
        results.records.of_systems(on(MAIN, split), *design.tasks),
        ".1f",
        max,
        lambda name: _mark(results, name) if split == "test" else "",
        _baseline(results) if split == "test" else "",
    )


def _mark(results: TaskResults, name: str, *task: str) -> str:
    if not is_significant(results.records.mean(name, "p", *task)):
        return ""
    return BETTER if (results.records.mean(name, "difference", *task) or 0) > 0 else WORSE


def _baseline(results: TaskResults) -> str:
    """What differences were tested against; empty if none were."""
    return str(results.differences["baseline"]) if results.differences else ""


def _difference_note(results: TaskResults) -> list[str]:
    if not results.differences:
        return []
    baseline, resamples = results.differences["baseline"], results.differences["resamples"]
    return [
        f"▲ better, ▼ worse than {baseline} in accuracy (p < {SIGNIFICANT:g}; paired bootstrap over the test sets, "
        f"{resamples:,} resamples, two-sided, not corrected for the number of comparisons)."
    ]


def _f1_note(results: TaskResults, names: Sequence[str]) -> list[str]:
    labels = {record["task"]: record["labels"] for record in results.predictions.values()}
    said = [f"{task}: {describe_metric('f1', labels[task])}" for task in names if task in labels]
    return [f"{'; '.join(said)}."] if said else []


def _remarks(results: TaskResults, runs: Sequence[str]) -> list[str]:
    """What must be known of single runs on the test sets."""
    said = [
        f"{run}: {remark}"
        for run in runs
        if run in results.predictions
        for remark in results.predictions[run]["remarks"]["test"]
    ]
    return [f"{'; '.join(said)}."] if said else []
