"""The pictures of a report on tasks: accuracy by parameters."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial

from fairseq_ext.experiments.classification.results import (
    MAIN,
    METRICS_FILE,
    Method,
    TaskDesign,
    TaskResults,
    on,
)
from fairseq_ext.report.content import Below, Picture
from fairseq_ext.report.line_charts import Level, Panel, Point, line_panels, thousands
from fairseq_ext.report.page import signed

# Colours of the series, the first two as in the paper: orange and blue.
_ADAPTERS, _TOP, _NORMS = 1, 0, 2
SERIES = {"adapters, by width": _ADAPTERS, "top layers, by number": _TOP, "layer norms": _NORMS}
_KINDS = {_ADAPTERS: ("adapters",), _TOP: ("top", "full"), _NORMS: ("norms",)}
_PARAMETERS = "parameters trained for a task"


def draw_trade_off(results: TaskResults, design: TaskDesign) -> Picture | None:
    """Figures 1 and 3: the distance to full fine-tuning by trained parameters, over all tasks; None without one."""
    if design.full is None:
        return None
    lines = _lines(design, partial(_against_full, results, design))
    if sum(len(points) for _, points in lines) < 2:
        return None
    panel = Panel("", lines, [Level(0.0)])
    over = f"percentage points over {design.full.name}"
    draw = partial(line_panels, [panel], SERIES, _PARAMETERS, over, thousands)
    shapes, size = draw()
    notes = ["Median over the tasks; lines up and down reach from the 20th to the 80th percentile. Test sets."]
    title = "Figures 1 and 3. Distance to full fine-tuning by trained parameters"
    return Picture("trade-off", title, *size, shapes, _below(notes), draw(is_narrow=True))


def draw_trade_off_by_task(results: TaskResults, design: TaskDesign) -> Picture | None:
    """Figure 4: the same for every task by itself, as it was measured."""
    panels = []
    for task, metrics in design.tasks.items():
        lines = _lines(design, partial(_on_task, results, design, task))
        if any(points for _, points in lines):
            panels.append(Panel(f"{task}: {metrics[0]}", lines))
    if not panels:
        return None
    draw = partial(line_panels, panels, SERIES, _PARAMETERS, "test set, in percent", thousands)
    shapes, size = draw()
    title = "Figure 4. Results by trained parameters"
    return Picture("trade-off-tasks", title, *size, shapes, _below([]), draw(is_narrow=True))


def _lines(design: TaskDesign, place: Callable[[Method], Point | None]) -> list[tuple[int, list[Point]]]:
    """The points of every series; where several have one size, the first is joined to the other sizes."""
    lines = []
    for colour, kinds in _KINDS.items():
        joined: dict[str, Point] = {}
        alone = []
        for method in design.of_tuning(*kinds):
            if (point := place(method)) is None:
                continue
            if joined.setdefault(_size(method), point) is not point:
                alone.append((colour, [replace(point, label=method.name)]))
        lines += [(colour, [*joined.values()]), *alone]
    return lines


def _on_task(results: TaskResults, design: TaskDesign, task: str, method: Method) -> Point | None:
    scores = list(results.records.by_run(method.name, on(MAIN, "test"), task).values())
    trained = results.records.mean(method.name, "trained", task)
    if not scores or trained is None:
        return None
    mean = statistics.fmean(scores)
    spread = (min(scores), max(scores)) if len(scores) > 1 else None
    title = f"{method.name}: {mean:.1f}, {trained:,.0f} parameters"
    return Point(trained, mean, title, _size(method), spread)


def _against_full(results: TaskResults, design: TaskDesign, method: Method) -> Point | None:
    differences = differences_to(results, design, method, design.full)
    trained = results.over_tasks(method, "trained")
    if not differences or trained is None:
        return None
    median = statistics.median(differences)
    title = f"{method.name}: {signed(median)}, {trained:,.0f} parameters"
    return Point(trained, median, title, _size(method), _percentiles(differences))


def _size(method: Method) -> str:
    return {"full": "all", "norms": ""}.get(method.tuning, str(method.size))


def differences_to(results: TaskResults, design: TaskDesign, method: Method, other: Method | None) -> list[float]:
    """By task, the main metric against another method's, in points, where both were measured."""
    differences = []
    for task in design.tasks:
        pair = [results.records.mean(m.name, on(MAIN, "test"), task) for m in (method, other) if m is not None]
        if len(pair) == 2 and pair[0] is not None and pair[1] is not None:
            differences.append(pair[0] - pair[1])
    return differences


def _percentiles(values: Sequence[float]) -> tuple[float, float] | None:
    """The 20th and the 80th."""
    if len(values) < 2 or min(values) == max(values):
        return None
    fifths = statistics.quantiles(values, n=5, method="inclusive")
    return fifths[0], fifths[-1]


def _below(notes: Iterable[str]) -> Below:
    return Below(list(notes), [METRICS_FILE.format("*")])
