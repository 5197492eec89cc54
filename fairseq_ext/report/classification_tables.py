"""The tables of a report on tasks, numbered as in Houlsby et al. (2019) where there is such a table."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from fairseq_ext.evaluation.bootstrap import SIGNIFICANT, is_significant
from fairseq_ext.evaluation.classification_metrics import describe_metric
from fairseq_ext.report.classification_results import FILES, METRICS_FILE, Method, TaskDesign, TaskResults
from fairseq_ext.report.content import NOTHING, Below, Cell, Missing, Row, Table

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
    measured = [m for m in design.methods.values() if results.trained(m) is not None]
    if not measured:
        return Missing(title, "not available: no system has been measured")
    columns = [*(_heading(design, task) for task in design.tasks), AVERAGE]
    grid = [
        [*(_score_cell(results, design, m, task) for task in design.tasks), _average_cell(results, design, m)]
        for m in measured
    ]
    rows = [
        (method.tuning, Row(method.name, [*_size_cells(results, design, method), *scores]))
        for method, scores in zip(measured, _mark_best(grid), strict=True)
    ]
    groups = [(heading, [row for tuning, row in rows if tuning in kinds]) for heading, kinds in _GROUPS]
    notes = [
        "In percent. Bold is the best of a column.",
        "Trained: parameters trained for a task, its head among them (mean over tasks), and their share of the base’s. "
        f"In all: what all {len(design.tasks)} tasks take together, in multiples of the base.",
        *_difference_note(results),
        *_spread_note(cell for cells in grid for cell in cells),
        *_remarks(results, [run for m in measured for runs in m.runs.values() for run in runs]),
    ]
    sources = [METRICS_FILE.format("*"), *([FILES["differences"]] if results.differences else [])]
    headings = ["Trained", "of base", "In all", *columns]
    return Table(title, "System", headings, [group for group in groups if group[1]], below=Below(notes, sources))


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
    records = {record["task"]: record for record in results.predictions.values()}
    if not records:
        return Missing(title, "not available: nothing has been measured")
    rows = []
    for task in (task for task in design.tasks if task in records):
        counts, majority = records[task]["counts"], results.majority(task, "test")
        cells = [Cell(f"{counts[split]:,}" if split in counts else "–") for split in ("train", "valid", "test")]
        cells.append(Cell(f"{len(records[task]['labels'])}") if records[task]["labels"] else NOTHING)
        rows.append(Row(task, [*cells, NOTHING if majority is None else Cell(f"{majority:.1f}")]))
    notes = ["Most frequent: the share of the test set’s most frequent label, in percent; who always gives it is right "
             "so often."]  # fmt: skip
    columns = ["Training", "Validation", "Test", "Labels", "Most frequent"]
    return Table(title, "Task", columns, [("", rows)], below=Below(notes, [METRICS_FILE.format("*")]))


def sequences(results: TaskResults) -> list[Shown]:
    """What became of every task when others followed it in the same file."""
    title = "Tasks one after another"
    if results.sequence is None:
        return [Missing(title, "not measured")]
    return [_sequence(name, found) for name, found in results.sequence.items()]


def figure(number: float) -> str:
    """A number to a decimal with a true minus sign."""
    return f"{number:.1f}".replace("-", "−")


def percent(share: float) -> str:
    """A share in percent, small ones to more places."""
    return f"{100 * share:.2g}%" if share < 0.1 else f"{100 * share:.0f}%"


def _sequence(name: str, found: Mapping[str, Any]) -> Table:
    rows = []
    for number, task in enumerate(found["order"], start=1):
        compared = found["tasks"].get(task)
        if compared is None:
            cells = [Cell("the last"), NOTHING, NOTHING]
        else:
            same = "equal, bit for bit" if compared["same"] else "not equal"
            cells = [Cell(same), Cell(f"{compared['largest']:g}"), Cell(f"{compared['examples']:,}")]
        rows.append(Row(f"{number}. {task}", cells))
    last = found["order"][-1]
    notes = [
        f"Logits of the validation and test sets from the file in which a task was trained, against those from the "
        f"last, that of {last}, which holds all tasks. Equal sentences in equal batches."
    ]
    columns = ["Logits after the last task", "Largest difference", "Examples"]
    below = Below(notes, [FILES["sequence"]])
    return Table(f"Tasks one after another: {name}", "Task", columns, [("", rows)], below=below)


def _metric_table(results: TaskResults, design: TaskDesign, title: str, chosen: Mapping[str, str], split: str) -> Shown:
    """Methods by tasks: of each task the chosen metric, and the average where these are the main ones of all."""
    are_main = all(chosen.get(task) == metrics[0] for task, metrics in design.tasks.items())
    grid: dict[str, list[Cell]] = {}
    for method in design.methods.values():
        cells = [_cell(results.scores(method, task, name, split)) for task, name in chosen.items()]
        cells += [_cell(results.averages(design, method, split))] if are_main else []
        grid |= {method.name: cells} if any(cell != NOTHING for cell in cells) else {}
    if not grid:
        return Missing(title, "not measured")
    rows = [Row(name, cells) for name, cells in zip(grid, _mark_best(list(grid.values())), strict=True)]
    notes = ["In percent. Bold is the best of a column.", *_spread_note(c for cells in grid.values() for c in cells)]
    notes += _f1_note(results, [task for task, name in chosen.items() if name == "f1"])
    columns = [*(_heading(design, task) for task in chosen), AVERAGE] if are_main else list(chosen)
    return Table(title, "System", columns, [("", rows)], below=Below(notes, [METRICS_FILE.format("*")]))


def _heading(design: TaskDesign, task: str) -> str:
    """A task's name, with its metric where that is not the accuracy."""
    main = design.tasks[task][0]
    return task if main == "accuracy" else f"{task} ({_SHORT[main]})"


def _size_cells(results: TaskResults, design: TaskDesign, method: Method) -> list[Cell]:
    trained, share = results.trained(method) or 0, results.share(method) or 0
    multiple = results.multiple(design, method)
    return [
        Cell(f"{trained:,.0f}"),
        Cell(percent(share)),
        NOTHING if multiple is None else Cell(f"{multiple:.2f}×"),
    ]


def _score_cell(results: TaskResults, design: TaskDesign, method: Method, task: str) -> Cell:
    cell = _cell(results.scores(method, task, design.tasks[task][0]))
    return _with_mark(cell, results.difference(design, method.name, task))


def _average_cell(results: TaskResults, design: TaskDesign, method: Method) -> Cell:
    return _with_mark(_cell(results.averages(design, method)), results.average_difference(design, method.name))


def _with_mark(cell: Cell, tested: Mapping[str, float] | None) -> Cell:
    if cell == NOTHING or tested is None or not is_significant(tested["p"]):
        return cell
    return replace(cell, mark="▲" if tested["difference"] > 0 else "▼")


def _cell(values: Sequence[float]) -> Cell:
    if not values:
        return NOTHING
    note = f"±{statistics.stdev(values):.1f}" if len(values) > 1 else ""
    return Cell(figure(statistics.fmean(values)), note)


def _mark_best(grid: Sequence[Sequence[Cell]]) -> list[list[Cell]]:
    """Mark the highest figure of every column, equal ones alike, where there are several."""
    columns = []
    for column in zip(*grid, strict=True):
        figures = {cell.text: float(cell.text.replace("−", "-")) for cell in column if cell != NOTHING}
        several = sum(cell != NOTHING for cell in column) > 1
        best = max(figures, key=lambda text: figures[text]) if several else None
        columns.append([replace(cell, is_best=cell.text == best) for cell in column])
    return [list(row) for row in zip(*columns, strict=True)]


def _difference_note(results: TaskResults) -> list[str]:
    if not results.differences:
        return []
    baseline, resamples = results.differences["baseline"], results.differences["resamples"]
    return [
        f"▲ better, ▼ worse than {baseline} in accuracy (p < {SIGNIFICANT:g}; paired bootstrap over the test sets, "
        f"{resamples:,} resamples, two-sided, not corrected for the number of comparisons)."
    ]


def _spread_note(cells: Iterable[Cell]) -> list[str]:
    return ["± is the standard deviation over training runs."] if any(cell.note for cell in cells) else []


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
