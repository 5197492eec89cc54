"""The report's pictures as shapes on a plane; ``drawing.svg.jinja`` writes them as SVG, in the page and as files."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fairseq_ext.filtering.charts import axis_ticks
from fairseq_ext.pages.page import NUM_COLOURS
from fairseq_ext.report.content import Below, Picture, Shape
from fairseq_ext.report.expectations import signed
from fairseq_ext.report.results import FILES, Design, Results
from fairseq_ext.report.tables import AVERAGES, MISCLASSIFIED, ood_columns

_LETTER = 8.0  # width of a letter, about, at the size of the labels
_LONGEST_LABEL = 26  # letters; the rest is cut
_CELL = (50, 28)  # of a heat map with figures in it
_SMALL_CELL = (17, 13)  # of one without
_GAP = 26
_WIDTH = 1080  # of what is broken into rows
_HALF_WIDTH = 420  # up to which cells are made wide enough for their labels
_SHADE = 0.62  # of the darkest cell that holds a figure, which must stay legible


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


def draw_confusion(teacher: Mapping[str, Any]) -> Picture:
    """Figure 4: sentences of the test sets; shades are shares of the true domain."""
    domains, matrix = teacher["domains"], teacher["metrics"]["test"]["confusion"]
    shares = [[count / max(sum(row), 1) for count in row] for row in matrix]
    texts = [[f"{count:,}" if count else "" for count in row] for row in matrix]
    shapes, size = heat_map(domains, domains, shares, texts, ("true domain", "the classifier’s choice"))
    return Picture(
        "confusion",
        "Figure 4. The classifier’s confusion matrix on the test sets",
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
    left, foot = _text_width(labels), _text_width(map(_cut, domains)) + 6
    panel = max(len(domains) * width, _text_width([_cut(name) for name in domains]))
    across = max(1, min(len(domains), int((_WIDTH - left) // (panel + _GAP))))
    tall = 24 + len(layers) * height + foot + 14
    shapes: list[Shape] = []
    for number, name in enumerate(domains):
        x0 = left + 8 + number % across * (panel + _GAP)
        y0 = number // across * tall + 24
        shapes.append(Shape("text", x0, y0 - 8, "strong", _cut(name)))
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
                Shape("text", x, y, "strong small" if gate == name else "small", _cut(gate), anchor="end", turn=-90)
            )
    rows = math.ceil(len(domains) / across)
    size = (left + 8 + across * (panel + _GAP), rows * tall)
    notes = ["A panel a true domain; down: layers, across: gates. The stronger the colour, the larger the mean weight."]
    return Picture(f"gate-layers-{run}", f"Gate weights by layer: {run}", *size, shapes, Below(notes, [FILES["gates"]]))


def draw_gains(results: Results, design: Design) -> Picture | None:
    """What the outputs gain over the baseline, by domain, as dots; None if there is nothing to compare."""
    if not results.metrics:
        return None
    metric = results.metrics[0]
    outputs = [name for name in design.main if results.gain(name, design.baseline, metric, "AVG") is not None]
    outputs = [name for name in outputs if name != design.baseline]
    shown = sorted(outputs, key=lambda name: -results.outputs[name][metric]["AVG"]["mean"])[:NUM_COLOURS]
    outputs = [name for name in outputs if name in shown]
    columns = [*AVERAGES, MISCLASSIFIED, *results.domains, *ood_columns(results)]
    columns = [column for column in columns if any(_gain(results, design, metric, name, column) for name in outputs)]
    if not outputs:
        return None
    points = [
        DotPoint(column, number, *found, f"{name}, {column}: {signed(found[0])}")
        for column in columns
        for number, name in enumerate(outputs)
        if (found := _gain(results, design, metric, name, column))
    ]
    shapes, size = dot_plot(columns, outputs, points, f"{metric} points over {design.baseline}", strong=AVERAGES)
    notes = ["Lines are standard deviations over training runs."] if any(point.spread for point in points) else []
    if len(design.main) - 1 > NUM_COLOURS:
        notes.append(f"The {NUM_COLOURS} outputs with the highest AVG; the tables have all.")
    return Picture("gains", f"Gains over {design.baseline}", *size, shapes, Below(notes, [FILES["scores"]]))


@dataclass(frozen=True)
class DotPoint:
    """A dot of :func:`dot_plot`: its row, the number of its series, value, standard deviation and title."""

    row: str
    series: int
    value: float
    spread: float
    title: str


def dot_plot(
    rows: Sequence[str], series: Sequence[str], points: Sequence[DotPoint], axis: str, strong: Sequence[str] = ()
) -> tuple[list[Shape], tuple[float, float]]:
    """Dots of several series by row, around zero; and width and height.

    Args:
        rows: from top to bottom.
        series: names of the colours, at most :data:`NUM_COLOURS`.
        points: the dots.
        axis: what the values are.
        strong: rows that are set off.
    """
    low = min([0.0, *(point.value - point.spread for point in points)])
    high = max([0.0, *(point.value + point.spread for point in points)])
    step = axis_ticks(high - low)[1]
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    left, right = _text_width(map(_cut, rows)) + 14, 900
    heads, top = legend(series, right)
    band = max(26, 8 * len(series) + 12)

    def place(value: float) -> float:
        return round(left + (value / step - first) / max(last - first, 1) * (right - left), 1)

    bottom = top + band * len(rows)
    shapes = [*heads]
    for tick in range(first, last + 1):
        x = place(tick * step)
        shapes.append(Shape("line", x, top, "zero" if tick == 0 else "grid", height=bottom - top))
        shapes.append(Shape("text", x, bottom + 18, "small", tick_label(tick * step), anchor="middle"))
    shapes.append(Shape("text", (left + right) / 2, bottom + 40, "small", axis, anchor="middle"))
    for number, row in enumerate(rows):
        y = top + number * band
        if number:
            shapes.append(Shape("line", 0, y, "grid", width=right))
        style = "strong" if row in strong else ""
        shapes.append(Shape("text", left - 12, y + band / 2 + 4.5, style, _cut(row), anchor="end"))
    for point in points:
        y = top + rows.index(point.row) * band + band / 2 + (point.series - (len(series) - 1) / 2) * 8
        if point.spread:
            start = place(point.value - point.spread)
            width = round(place(point.value + point.spread) - start, 1)
            shapes.append(Shape("line", start, y, "spread", width=width))
        shapes.append(Shape("dot", place(point.value), y, f"f{point.series}", point.title, width=5))
    return shapes, (right + 20, bottom + 50)


def heat_map(
    rows: Sequence[str],
    columns: Sequence[str],
    shares: Sequence[Sequence[float]],
    texts: Sequence[Sequence[str]],
    axes: tuple[str, str] = ("", ""),
) -> tuple[list[Shape], tuple[float, float]]:
    """Shaded cells with figures, labels at the left and above; and width and height.

    Args:
        rows: labels of the rows.
        columns: labels of the columns.
        shares: how dark each cell is, from 0 to 1.
        texts: what is written in each cell.
        axes: what rows and columns are.
    """
    width, height = map(float, _CELL)
    width = max([width, *(len(text) * 8 + 12 for line in texts for text in line)])
    labels, heads = [_cut(name) for name in rows], [_cut(name) for name in columns]
    left = max(_text_width(labels), _text_width([axes[0]])) + 10
    if _text_width(heads) * len(heads) <= _HALF_WIDTH:
        width = max(width, _text_width(heads) + 8)
    is_turned = _text_width(heads) > width
    head = _text_width(heads) * math.sin(math.radians(40)) + 14 if is_turned else 22
    head += 20 if axes[1] else 0
    shapes: list[Shape] = []
    if axes[1]:
        shapes += [
            Shape("text", left + width * len(heads) / 2, 14, "small", axes[1], anchor="middle"),
            Shape("text", left - 10, head - 8, "small", axes[0], anchor="end"),
        ]
    for column, name in enumerate(heads):
        x = left + (column + 0.5) * width
        if is_turned:
            shapes.append(Shape("text", x - 2, head - 8, "", name, turn=-40))
        else:
            shapes.append(Shape("text", x, head - 8, "", name, anchor="middle"))
    for row, name in enumerate(labels):
        y = head + row * height
        shapes.append(Shape("text", left - 10, y + height / 2 + 4.5, "", name, anchor="end"))
        for column, share in enumerate(shares[row]):
            x = left + column * width
            title = f"{rows[row]}, {columns[column]}: {texts[row][column]}"
            shapes.append(Shape("rect", x, y, "faint", "", width - 2, height - 2))
            shapes.append(Shape("rect", x, y, "heat", title, width - 2, height - 2, opacity=round(_SHADE * share, 3)))
            if texts[row][column]:
                text = texts[row][column]
                shapes.append(Shape("text", x + width / 2 - 1, y + height / 2 + 3.5, "figure", text, anchor="middle"))
    overhang = _text_width(heads[-1:]) * math.cos(math.radians(40)) if is_turned else 0
    return shapes, (left + width * len(heads) + overhang, head + height * len(labels) + 2)


def _gain(results: Results, design: Design, metric: str, output: str, column: str) -> tuple[float, float] | None:
    gain, score = results.gain(output, design.baseline, metric, column), results.score(output, metric, column)
    return None if gain is None or score is None else (gain, score.get("sd") or 0.0)


def legend(outputs: Sequence[str], width: float, colours: Sequence[int] | None = None) -> tuple[list[Shape], float]:
    """Dots and names, broken into lines; and the height that they take. Colours are numbered as names if not given."""
    shapes: list[Shape] = []
    x, y = 6.0, 10.0
    for number, name in zip(colours or range(NUM_COLOURS), outputs, strict=False):
        room = _text_width([name]) + 40
        if x > 6 and x + room > width:
            x, y = 6.0, y + 22
        shapes += [Shape("dot", x, y, f"f{number}", width=5), Shape("text", x + 12, y + 4.5, "", name)]
        x += room
    return shapes, y + 22


def tick_label(number: float, plus: str = "+") -> str:
    """A number at an axis, with a true minus sign, and a plus where that is wanted."""
    return "0" if abs(number) < 1e-9 else f"{number:{plus}g}".replace("-", "−")


def _short_layer(name: str) -> str:
    return name.replace("encoder", "enc").replace("decoder", "dec")


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST_LABEL else text[: _LONGEST_LABEL - 1] + "…"


def _text_width(texts: Any) -> float:
    return round(_LETTER * max((len(text) for text in texts), default=0), 1)
