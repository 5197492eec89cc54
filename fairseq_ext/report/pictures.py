"""Heat maps and dot plots as shapes on a plane; ``drawing.svg.jinja`` writes them as SVG, in the page and as files."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from fairseq_ext.report.charts import axis_ticks
from fairseq_ext.report.content import Plane, Shape
from fairseq_ext.report.page import NUM_COLOURS, NUM_MARKERS, NUM_SERIES

_LETTER, _WIDE_LETTER = 8.0, 10.5  # widths of letters, about, at the size of the labels
_WIDE, _NARROW = 900.0, 320.0  # of a dot plot
_SMALL = 0.85  # of that, at the size of what is small
_LONGEST_LABEL = 26  # letters; the rest is cut
_CELL = (50, 28)  # of a heat map with figures in it
_HALF_WIDTH = 420  # up to which cells are made wide enough for their labels
SHADE = 0.52  # of the darkest cell that holds a figure, which must stay legible


@dataclass(frozen=True)
class DotPoint:
    """A dot of :func:`dot_plot`: its row, the number of its series, value, standard deviation and title."""

    row: str
    series: int
    value: float
    spread: float
    title: str


def dot_plot(
    rows: Sequence[str],
    series: Sequence[str],
    points: Sequence[DotPoint],
    axis: str,
    strong: Sequence[str] = (),
    is_narrow: bool = False,
) -> Plane:
    """Dots of several series by row, around zero; and width and height.

    Args:
        rows: from top to bottom.
        series: names of the colours, at most :data:`NUM_COLOURS`.
        points: the dots.
        axis: what the values are.
        strong: rows that are set off.
        is_narrow: whether it is for a small screen; the names of rows are then above their dots.
    """
    low = min([0.0, *(point.value - point.spread for point in points)])
    high = max([0.0, *(point.value + point.spread for point in points)])
    step = axis_ticks(high - low)[1]
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    left, right = (14.0, _NARROW) if is_narrow else (text_width(map(cut, rows)) + 14, _WIDE)
    heads, top = legend(series, right)
    above = 18 if is_narrow else 0
    band = max(26, 8 * len(series) + 12) + above

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
        if is_narrow:
            shapes.append(Shape("text", 0, y + 17, f"{style} label".strip(), row))
        else:
            shapes.append(Shape("text", left - 12, y + band / 2 + 4.5, style, cut(row), anchor="end"))
    for point in points:
        y = top + rows.index(point.row) * band + (band + above) / 2 + (point.series - (len(series) - 1) / 2) * 8
        if point.spread:
            start = place(point.value - point.spread)
            width = round(place(point.value + point.spread) - start, 1)
            shapes.append(Shape("line", start, y, "spread", width=width))
        shapes.append(dot(place(point.value), y, point.series, point.title))
    return shapes, (right + 20, bottom + 50)


def heat_map(
    rows: Sequence[str],
    columns: Sequence[str],
    shares: Sequence[Sequence[float]],
    texts: Sequence[Sequence[str]],
    axes: tuple[str, str] = ("", ""),
) -> Plane:
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
    labels, heads = [cut(name) for name in rows], [cut(name) for name in columns]
    left = max(text_width(labels), text_width([axes[0]])) + 10
    if text_width(heads) * len(heads) <= _HALF_WIDTH:
        width = max(width, text_width(heads) + 8)
    is_turned = text_width(heads) > width
    head = text_width(heads) * math.sin(math.radians(40)) + 14 if is_turned else 22
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
            shapes.append(Shape("rect", x, y, "heat", title, width - 2, height - 2, opacity=round(SHADE * share, 3)))
            if texts[row][column]:
                text = texts[row][column]
                shapes.append(Shape("text", x + width / 2 - 1, y + height / 2 + 3.5, "figure", text, anchor="middle"))
    overhang = text_width(heads[-1:]) * math.cos(math.radians(40)) if is_turned else 0
    return shapes, (left + width * len(heads) + overhang, head + height * len(labels) + 2)


def legend(outputs: Sequence[str], width: float, colours: Sequence[int] | None = None) -> tuple[list[Shape], float]:
    """Dots and names, broken into lines; and the height that they take. Colours are numbered as names if not given."""
    shapes: list[Shape] = []
    x, y = 6.0, 10.0
    for number, name in zip(range(NUM_SERIES) if colours is None else colours, outputs, strict=False):
        room = text_width([name]) + 40
        if x > 6 and x + room > width:
            x, y = 6.0, y + 22
        shapes += [dot(x, y, number), Shape("text", x + 12, y + 4.5, "", name, series=number)]
        x += room
    return shapes, y + 22


def dot(x: float, y: float, series: int, title: str = "", size: float = 5) -> Shape:
    """A dot in the colour of a series, and with its marker."""
    return Shape("dot", x, y, f"f{series % NUM_COLOURS}", title, width=size, series=series)


def marker(shape: Shape) -> str:
    """The outline of a dot that is no circle, as an SVG path; empty for a circle."""
    match (shape.series or 0) % NUM_MARKERS:
        case 1:
            side = round(1.75 * shape.width, 1)
            return f"m{-side / 2:g} {-side / 2:g}h{side:g}v{side:g}h{-side:g}z"
        case 2:
            reach = round(1.25 * shape.width, 1)
            return f"m0 {-reach:g}l{reach:g} {reach:g}l{-reach:g} {reach:g}l{-reach:g} {-reach:g}z"
        case 3:
            wide, high = round(1.15 * shape.width, 1), round(2 * shape.width, 1)
            return f"m0 {-0.6 * high:g}l{wide:g} {high:g}h{-2 * wide:g}z"
    return ""


def view_box(plane: Plane) -> tuple[float, float, float, float]:
    """The part of a plane that is shown: all of it, and what labels need beyond it."""
    shapes, (right, bottom) = plane
    left = top = 0.0
    for shape in shapes:
        if shape.kind == "text" and not shape.turn:
            width = text_width([shape.text]) * (_SMALL if {"small", "label"} & {*shape.style.split()} else 1)
            start = shape.x - width * {"start": 0, "middle": 0.5, "end": 1}[shape.anchor]
            left, right = min(left, start), max(right, start + width)
            top = min(top, shape.y - 12)
    return left, top, right - left, bottom - top


def tick_label(number: float, plus: str = "+") -> str:
    """A number at an axis, with a true minus sign, and a plus where that is wanted."""
    return "0" if abs(number) < 1e-9 else f"{number:{plus}g}".replace("-", "−")


def cut(text: str) -> str:
    """A label, cut if it is too long."""
    return text if len(text) <= _LONGEST_LABEL else text[: _LONGEST_LABEL - 1] + "…"


def text_width(texts: Iterable[str]) -> float:
    """About how wide the longest of these labels is."""
    return round(max((sum(map(_letter_width, text)) for text in texts), default=0.0), 1)


def _letter_width(letter: str) -> float:
    return _WIDE_LETTER if letter.isupper() or letter in "mw%…" else _LETTER
