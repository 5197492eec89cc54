"""The pictures of a report on translation: distances, confusion, gates, gains."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import partial
from typing import Any

from fairseq_ext.experiments.translation.convergence import LOGS, ValidationCurve
from fairseq_ext.experiments.translation.results import FILES, Design, Results
from fairseq_ext.experiments.translation.tables import AVERAGES, MISCLASSIFIED, extra_columns
from fairseq_ext.metrics.corpus_metrics import METRICS
from fairseq_ext.report.content import Below, Picture, Shape
from fairseq_ext.report.line_charts import Panel, Point, line_panels
from fairseq_ext.report.page import NUM_COLOURS, signed
from fairseq_ext.report.pictures import DotPoint, cut, dot_plot, heat_map, text_width
from fairseq_ext.report.score_tables import gain_label

_SMALL_CELL = (17, 13)  # of one without
_GAP = 26
_HIGHEST = 3  # times the lowest perplexity that is drawn
_WIDTH = 1080  # of what is broken into rows
# Names and titles by set.
_CONFUSIONS = {
    "test": ("confusion", "Figure 4. The classifier’s confusion matrix on the test sets"),
    "train": ("confusion-train", "The classifier’s confusion matrix on the training sets, out of fold"),
}


def draw_distances(record: Mapping[str, Any]) -> Picture:
    """Figure 3."""
    domains, matrix = record["domains"], record["matrix"]
    texts = [
        ["" if row == column else f"{value:.2f}" for column, value in enumerate(line)]
        for row, line in enumerate(matrix)
    ]
    shapes, size = heat_map(domains, domains, [[value / 2 for value in line] for line in matrix], texts)
    notes = ["0: a classifier cannot tell the two domains apart; 2: it never errs."]
    notes.append(f"{record['sentences']:,} sentences a domain; {record['embedding']}.")
    return Picture(
        "distances", "Figure 3. A-Proxy distance between the domains", *size, shapes, Below(notes, [FILES["distances"]])
    )


def draw_confusion(teacher: Mapping[str, Any], split: str = "test") -> Picture:
    """Figure 4 or, of ``train``, the same out of fold: sentences; shades are shares of the true domain."""
    domains, matrix = teacher["domains"], teacher["metrics"][split]["confusion"]
    name, title = _CONFUSIONS[split]
    shares = [[count / max(sum(row), 1) for count in row] for row in matrix]
    texts = [[f"{count:,}" if count else "" for count in row] for row in matrix]
    shapes, size = heat_map(domains, domains, shares, texts, ("true domain", "the classifier’s choice"))
    return Picture(
        name,
        title,
        *size,
        shapes,
        Below(
            ["Rows: true domains; columns: what the classifier took their sentences for. Shades are shares of a row."],
            [FILES["teacher"]],
        ),
    )


def draw_mean_gates(run: str, gates: Mapping[str, Any]) -> Picture:
    """Gate weights averaged over the layers, by true domain."""
    domains, num_layers = gates["domains"], len(gates["layers"])
    means = [
        [sum(layer[column] for layer in gates["weights"][name]) / num_layers for column in range(len(domains))]
        for name in domains
    ]
    texts = [[f"{mean:.2f}".removeprefix("0") for mean in row] for row in means]
    shapes, size = heat_map(domains, domains, means, texts, ("true domain", "gate of"))
    notes = [f"Rows: true domains of the test sentences of {run}; columns: mean weights of the gates, all layers."]
    return Picture(f"gates-{run}", f"Gate weights by domain: {run}", *size, shapes, Below(notes, [FILES["gates"]]))


def draw_gate_layers(run: str, gates: Mapping[str, Any]) -> Picture:
    """Gate weights by layer: a small heat map for every true domain."""
    domains, layers = gates["domains"], gates["layers"]
    width, height = _SMALL_CELL
    labels = [_short_layer(layer) for layer in layers]
    left, foot = text_width(labels), text_width(map(cut, domains)) + 6
    panel = max(len(domains) * width, text_width([cut(name) for name in domains]))
    across = max(1, min(len(domains), int((_WIDTH - left) // (panel + _GAP))))
    tall = 24 + len(layers) * height + foot + 14
    shapes: list[Shape] = []
    for number, name in enumerate(domains):
        x0 = left + 8 + number % across * (panel + _GAP)
        y0 = number // across * tall + 24
        shapes.append(Shape("text", x0, y0 - 8, "strong", cut(name)))
        for row, weights in enumerate(gates["weights"][name]):
            y = y0 + row * height
            if number % across == 0:
                shapes.append(Shape("text", x0 - 6, y + height - 3, "small", labels[row], anchor="end"))
            for column, weight in enumerate(weights):
                title = f"{name}, {layers[row]}: gate of {domains[column]} {weight:.3f}"
                x = x0 + column * width
                shapes.append(Shape("rect", x, y, "heat", title, width - 1, height - 1, opacity=round(weight, 3)))
        for column, gate in enumerate(domains):
            x, y = x0 + (column + 0.5) * width + 4, y0 + len(layers) * height + 4
            shapes.append(
                Shape("text", x, y, "strong small" if gate == name else "small", cut(gate), anchor="end", turn=-90)
            )
    rows = math.ceil(len(domains) / across)
    size = (left + 8 + across * (panel + _GAP), rows * tall)
    notes = ["A panel a true domain; down: layers, across: gates. The stronger the colour, the larger the mean weight."]
    return Picture(f"gate-layers-{run}", f"Gate weights by layer: {run}", *size, shapes, Below(notes, [FILES["gates"]]))


def draw_curves(curves: Mapping[str, ValidationCurve]) -> Picture:
    """Perplexity of the validation sets by update, a line a run."""
    points = {name: _curve_points(name, curve) for name, curve in curves.items()}
    lowest = min(point.y for line in points.values() for point in line)
    shown = {name: [p for p in line if p.y <= _HIGHEST * lowest] for name, line in points.items()}
    lines = [(number, line) for number, line in enumerate(shown.values())]
    series = {name: number for number, name in enumerate(shown)}
    draw = partial(line_panels, [Panel("", lines)], series, "update", "perplexity", "{:,.0f}".format, is_log=False)
    shapes, size = draw()
    below = Below([f"On the validation sets. What is above {_HIGHEST:g} times the lowest is not drawn."], [LOGS])
    return Picture("curves", "Validation curves of the base models", *size, shapes, below, draw(is_narrow=True))


def _curve_points(name: str, curve: ValidationCurve) -> list[Point]:
    perplexities = [2**bits for bits in curve.bits]
    return [
        Point(update, perplexity, f"{name}, update {update:,}: {perplexity:.1f}")
        for update, perplexity in zip(curve.updates, perplexities, strict=True)
    ]


def draw_gains(results: Results, design: Design) -> Picture | None:
    """What the outputs gain over the baseline, by domain, as dots; None if there is nothing to compare."""
    if not results.metrics:
        return None
    metric = results.metrics[0]
    outputs = [name for name in design.main if results.gain(name, design.baseline, metric, "AVG") is not None]
    outputs = [name for name in outputs if name != design.baseline]
    shown = sorted(outputs, key=lambda name: -(results.gain(name, design.baseline, metric, "AVG") or 0))[:NUM_COLOURS]
    outputs = [name for name in outputs if name in shown]
    columns = [*AVERAGES, MISCLASSIFIED, *results.domains, *extra_columns(results)]
    columns = [column for column in columns if any(_gain(results, design, metric, name, column) for name in outputs)]
    if not outputs:
        return None
    points = [
        DotPoint(column, number, *found, f"{name}, {column}: {signed(found[0])}")
        for column in columns
        for number, name in enumerate(outputs)
        if (found := _gain(results, design, metric, name, column))
    ]
    draw = partial(dot_plot, columns, outputs, points, gain_label(metric, design.baseline), strong=AVERAGES)
    shapes, size = draw()
    notes = ["Lines are standard deviations over training runs."] if any(point.spread for point in points) else []
    if len(design.main) - 1 > NUM_COLOURS:
        notes.append(f"The {NUM_COLOURS} outputs with the {METRICS[metric].best_word} AVG; the tables have all.")
    below = Below(notes, [FILES["scores"]])
    return Picture("gains", f"Gains over {design.baseline}", *size, shapes, below, draw(is_narrow=True))


def _gain(results: Results, design: Design, metric: str, output: str, column: str) -> tuple[float, float] | None:
    gain, score = results.gain(output, design.baseline, metric, column), results.records.figure(output, metric, column)
    return None if gain is None or score is None else (gain, score.sd or 0.0)


def _short_layer(name: str) -> str:
    return name.replace("encoder", "enc").replace("decoder", "dec")
