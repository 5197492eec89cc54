"""The scores of an experiment as tables."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fairseq_ext.metrics.bootstrap import SIGNIFICANT, is_significant
from fairseq_ext.metrics.corpus_metrics import METRICS
from fairseq_ext.report.figures import BEST
from fairseq_ext.report.records import over_runs
from fairseq_ext.report.significance import BETTER, WORSE, shown_best

MARK = "†"

Record = Mapping[str, Any]  # what scores.json holds


def metrics_of(record: Record) -> list[str]:
    """The metrics that were computed, in order."""
    return list(record["signatures"])


def columns_of(record: Record, metric: str) -> list[str]:
    """The columns that any output has a figure in, in order."""
    domains = list(record["domains"])
    found = {column for figures in record["outputs"].values() for column in figures[metric]}
    others = sorted(found - {*domains, "AVG", "wAVG", "misclassified"})
    return [column for column in [*domains, "AVG", "wAVG", "misclassified", *others] if column in found]


def format_table(record: Record) -> str:
    """A Markdown table a metric, one row an output, in bold what is shown to be the best of a column, and notes."""
    tables = [_format_metric(record, metric) for metric in metrics_of(record)]
    return "\n\n".join(tables) + "\n\n" + "\n".join(_notes(record, "".join(tables))) + "\n"


def _format_metric(record: Record, metric: str) -> str:
    columns = columns_of(record, metric)
    rows = {output: figures[metric] for output, figures in record["outputs"].items()}
    best = {column: _best_of(record, metric, rows, column) for column in columns}
    lines = [f"| {metric} | " + " | ".join(columns) + " |", "|---|" + "---:|" * len(columns)]
    for output, row in rows.items():
        cells = (format_cell(row[column], output == best[column]) if column in row else "" for column in columns)
        lines.append(f"| {output} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _best_of(record: Record, metric: str, rows: Mapping[str, Mapping[str, Any]], column: str) -> str | None:
    """The output that is shown to be the best of a column."""
    figures = {output: row[column] for output, row in rows.items() if column in row}
    found = {output: over for output, figure in figures.items() if (over := over_runs(figure["values"]))}
    baseline = record["baseline"]
    marks = {
        output: BETTER if METRICS[metric].gain(figure["mean"], figures[baseline]["mean"]) > 0 else WORSE
        for output, figure in figures.items()
        if baseline in figures and is_significant(figure["p"])
    }
    return shown_best(found, METRICS[metric].best, marks, baseline)


def format_cell(figure: Mapping[str, Any], is_best: bool) -> str:
    """A figure as ``42.5``, ``42.5 ± 0.31`` of several runs, bold if it is the best, marked if significant."""
    text = f"{figure['mean']:.1f}"
    if figure["sd"] is not None:
        text += f" ± {figure['sd']:.2f}"
    if is_best:
        text = f"**{text}**"
    return text + (MARK if is_significant(figure["p"]) else "")


def _notes(record: Record, tables: str) -> list[str]:
    notes = [f"COMET: {record['comet']}."] if record["comet"].startswith("not run") else []
    notes = [*(f"{metric}: lower is better." for metric in metrics_of(record) if METRICS[metric].is_error), *notes]
    if MARK in tables:
        notes.insert(0, f"{MARK} p < {SIGNIFICANT} against {record['baseline']}: {record['significance']}.")
    if "**" in tables:
        notes.insert(0, BEST.replace("▲ and ▼", MARK))
    if " ± " in tables:
        notes.insert(0, "± sample standard deviation over runs.")
    if record["missing"]:
        notes.append(f"Not there yet: {', '.join(record['missing'])}.")
    return notes


def gain_label(metric: str, baseline: str) -> str:
    """What an axis of gains shows."""
    return f"{metric} points {'below' if METRICS[metric].is_error else 'over'} {baseline}"
