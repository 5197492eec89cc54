"""Report of the classification recipe: Tables 1 to 3 and Figures 1 and 3 of Houlsby et al. (2019).

*Parameter-Efficient Transfer Learning for NLP*, ICML 2019.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from fairseq_ext.experiments.classification.config import Classification
from fairseq_ext.experiments.classification.measure import (
    ACCURACY,
    BASE,
    BASE_TRAINED,
    EXAMPLES,
    LABELS,
    MAIN,
    MAJORITY,
    TRAINED,
    fine_tuned,
)
from fairseq_ext.experiments.metrics.comparison import Comparison
from fairseq_ext.experiments.metrics.plots import COLOURS, GREY, draw_figure
from fairseq_ext.experiments.metrics.records import Records
from fairseq_ext.experiments.metrics.render import Page, Plot, Sections
from fairseq_ext.experiments.metrics.tables import Column, Table
from fairseq_ext.experiments.report import domain_column, metric_column, tuning_tables
from fairseq_ext.modules.tunings import TUNINGS

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_PAPER = "{} in Houlsby et al. (2019)."
_TEST = {"split": "test"}
_NAMES = {
    ACCURACY: "Accuracy",
    "f1": "F1",
    "matthews": "Matthews’ correlation",
    "pearson": "Pearson’s correlation",
    "spearman": "Spearman’s correlation",
}
# Measured tasks by system, in the order of the file.
Measured = Mapping[str, Sequence[str]]


def page(config: Classification, records: Records, comparisons: Sequence[Comparison]) -> Page:
    """Create the report from records and comparisons."""
    trained = {
        name: [task for task in config.tasks if records.mean(name, TRAINED, task)] for name in config.task_systems
    }
    measured = {name: tasks for name, tasks in trained.items() if tasks}
    sections: Sections = {
        "Results": [main_results(config, records, measured), *other_metrics(config, records, measured)],
        "Parameters": distances(config, records, measured),
        "Tasks": [task_sizes(config, records)],
        "Tuning": tuning_tables(records),
    }
    summary = f"Classifiers on one encoder: {len(measured)} systems, {len(config.tasks)} tasks."
    return Page(config.work_dir.name, summary, sections, comparisons)


# Tables


def main_results(config: Classification, records: Records, measured: Measured) -> Table:
    """Create Tables 1 and 2: trained parameters and the main metric of each task on its test set."""

    def number(row: str, metric: str) -> float:
        return records.value(row, metric, *measured[row]) or 0.0

    def multiple(row: str) -> float | None:
        """Return the parameters of all tasks as a multiple of the base's; unchanged ones are counted once."""
        if len(measured[row]) < len(config.tasks):
            return None
        unchanged = number(row, BASE) - number(row, BASE_TRAINED)
        return (unchanged + len(config.tasks) * number(row, TRAINED)) / number(row, BASE)

    mains = {name: task.metrics[0] for name, task in config.tasks.items()}
    headings = {task: task if main == ACCURACY else f"{task} ({_NAMES[main]})" for task, main in mains.items()}
    columns = [
        Column("Tuning", lambda row: str(config.systems[row].tuning)),
        Column("Trained", lambda row: number(row, TRAINED), ",.0f"),
        Column("% of base", lambda row: 100 * number(row, TRAINED) / number(row, BASE), ".3g"),
        Column("In all", multiple),
        *(_score(records, heading, MAIN, [task]) for task, heading in headings.items()),
        _score(records, "average", MAIN, list(config.tasks)),
    ]
    note = (
        "Metrics are in percent. Trained: parameters trained for a task, including its head (mean over tasks). % of "
        "base: trained parameters in percent of the base’s. In all: parameters for all tasks, as a multiple of the "
        "base’s."
    )
    notes = [note, _PAPER.format("Tables 1 and 2")]
    return Table("Results on the test sets", "System", list(measured), columns, notes)


def other_metrics(config: Classification, records: Records, measured: Measured) -> list[Table]:
    """Create a table of additional metrics on the test sets. The list is empty if each task has one metric."""
    pairs = [(name, metric) for name, task in config.tasks.items() for metric in task.metrics[1:]]
    if not pairs:
        return []
    columns = [_score(records, f"{task}: {_NAMES[metric]}", metric, [task]) for task, metric in pairs]
    note = (
        "In percent. With two labels, F1 is that of the second in alphabetical order; with more, it is the average "
        "over labels."
    )
    rows = [system for system in measured if any(column.of(system) for column in columns)]
    return [Table("Other metrics on the test sets", "System", rows, columns, [note])]


def task_sizes(config: Classification, records: Records) -> Table:
    """Create Table 3: sizes of the tasks."""
    headings = {"Training": "train", "Validation": "valid", "Test": "test"}
    columns = [
        *(domain_column(records, heading, EXAMPLES, dims={"split": split}) for heading, split in headings.items()),
        domain_column(records, "Labels", LABELS),
        domain_column(records, "Most frequent", MAJORITY, ".1f", dims=_TEST),
    ]
    note = "Number of examples by set. Most frequent: the share of the most frequent label in the test set, in percent."
    known = records.domains(EXAMPLES, **_TEST)
    notes = [note, _PAPER.format("Table 3")]
    return Table("Size of the tasks", "Task", [task for task in config.tasks if task in known], columns, notes)


def _score(records: Records, heading: str, metric: str, tasks: Sequence[str]) -> Column:
    return metric_column(records, heading, metric, *tasks, dims=_TEST, form=".1f", best=max)


# Figures


def distances(config: Classification, records: Records, measured: Measured) -> list[Plot]:
    """Create Figures 1 and 3: differences from full fine-tuning over all tasks.

    The list is empty without a fully fine-tuned system or another system.
    """
    full = fine_tuned(config)
    if full is None:
        return []
    points: dict[str, tuple[float, Sequence[float]]] = {}  # trained parameters per task, differences
    for name, tasks in measured.items():
        pairs = [[records.value(system, MAIN, task, **_TEST) for system in (name, full)] for task in config.tasks]
        differences = [one - other for one, other in pairs if one is not None and other is not None]
        if differences:
            points[name] = records.value(name, TRAINED, *tasks) or 0.0, differences
    if len(points) < 2:
        return []

    def draw(axes: Axes) -> None:
        for name, (trained, differences) in points.items():
            colour = COLOURS[list(TUNINGS).index(str(config.systems[name].tuning))]
            low, middle, high = np.percentile(differences, [20, 50, 80])
            axes.errorbar(trained, middle, [[middle - low], [high - middle]], fmt="o", color=colour, capsize=2)
            axes.annotate(name, (trained, middle), (5, 5), textcoords="offset points", color=GREY, fontsize=7)
        axes.set_xscale("log")
        axes.set_xlabel("parameters trained for a task")
        axes.set_ylabel(f"percentage points over {full}")

    note = "On the test sets. Points are medians over tasks; error bars show the 20th to the 80th percentile. "
    note += _PAPER.format("Figures 1 and 3")
    title = "Distance to full fine-tuning by trained parameters"
    return [Plot("trade-off", title, draw_figure(6, 3.2, draw), note)]
