"""Line charts of a report: panels side by side over one axis, logarithmic or not, as shapes on a plane."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from fairseq_ext.report.charts import axis_ticks
from fairseq_ext.report.content import Plane, Shape
from fairseq_ext.report.page import NUM_COLOURS
from fairseq_ext.report.pictures import dot, legend, text_width, tick_label

_PLOT = (300.0, 170.0)  # of a panel, without its labels
_ONLY_PLOT = (620.0, 230.0)  # of one that stands alone
_NARROW_PLOT = (270.0, 170.0)  # on a small screen, one below the other
_LEFT, _TOP, _FOOT, _GAP = 46.0, 26.0, 24.0, 22.0
_ACROSS = 3  # panels in a row, at most
_LEAST_RANGE = 1.0  # of heights, so that what hardly differs looks so
_MIN_TICK = 34.0  # pixels between two labels on the axis below
_DIGITS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


@dataclass(frozen=True)
class Point:
    """A dot of a line.

    Attributes:
        x: above zero where the axis is logarithmic.
        y: its height.
        title: what it says when pointed at.
        label: what stands beside it.
        spread: lowest and highest value that it stands for, if it stands for several.
    """

    x: float
    y: float
    title: str
    label: str = ""
    spread: tuple[float, float] | None = None


@dataclass(frozen=True)
class Level:
    """A height that is marked all along.

    Attributes:
        y: the height.
        name: what stands on its line.
        series: the number of the colour of the series that it belongs to, if it does to one.
    """

    y: float
    name: str = ""
    series: int | None = None


@dataclass(frozen=True)
class Panel:
    """One chart.

    Attributes:
        title: above it.
        lines: points of each series, by the number of its colour.
        levels: heights that are marked all along.
        series: names of its own, and the numbers of their colours; below it.
    """

    title: str
    lines: Sequence[tuple[int, Sequence[Point]]]
    levels: Sequence[Level] = ()
    series: Mapping[str, int] = field(default_factory=dict)

    @property
    def points(self) -> list[Point]:
        """Those of all lines."""
        return [point for _, points in self.lines for point in points]


def line_panels(
    panels: Sequence[Panel],
    series: Mapping[str, int],
    x_label: str,
    y_label: str,
    tick: Callable[[float], str],
    is_log: bool = True,
    is_narrow: bool = False,
) -> Plane:
    """Panels with heights of their own over the same axis; and width and height.

    Args:
        panels: at least one, with at least one point.
        series: names that all panels share, and the numbers of their colours.
        x_label: what is below.
        y_label: what the heights are.
        tick: how a number at the axis below is written; a power of ten, where it is logarithmic.
        is_log: whether it is.
        is_narrow: whether it is for a small screen.
    """
    width, height = plot = _NARROW_PLOT if is_narrow else _PLOT if len(panels) > 1 else _ONLY_PLOT
    most = 1 if is_narrow else _ACROSS
    across = math.ceil(len(panels) / math.ceil(len(panels) / most))  # rows of like length
    below = [_legend_below(panel, width) for panel in panels]
    tall = _TOP + height + _FOOT + 8 + max(room for _, room in below)
    total = across * (_LEFT + width) + (across - 1) * _GAP + 8
    drawn = {colour for panel in panels for colour, points in panel.lines if points}
    named = {name: colour for name, colour in series.items() if colour in drawn}
    heads, top = legend(list(named), total, list(named.values()))
    shapes = [*heads, Shape("text", 0, top + 4, "small", y_label)]
    top += 14
    values = [point.x for panel in panels for point in panel.points]
    x_axis = (_log_axis if is_log else _linear_axis)(values, width, tick)
    for number, panel in enumerate(panels):
        x0 = _LEFT + number % across * (_LEFT + width + _GAP)
        y0 = top + number // across * tall + _TOP
        shapes += _draw_panel(panel, x0, y0, plot, x_axis)
        shapes += [replace(shape, x=x0 + shape.x, y=y0 + height + _FOOT + shape.y) for shape in below[number][0]]
    bottom = top + math.ceil(len(panels) / across) * tall
    shapes.append(Shape("text", total / 2, bottom + 10, "small", x_label, anchor="middle"))
    return shapes, (total, bottom + 18)


def power_of_ten(value: float) -> str:
    """A power of ten as such."""
    return f"10{str(round(math.log10(value))).translate(_DIGITS)}"


def thousands(value: float) -> str:
    """A power of ten in thousands, millions or billions."""
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= size:
            return f"{value / size:g}{letter}"
    return f"{value:g}"


@dataclass(frozen=True)
class _Axis:
    """From which to which number, once they are scaled, over so many pixels; with labels at these."""

    low: float
    high: float
    width: float
    labels: Sequence[tuple[float, str]]
    scale: Callable[[float], float]

    def place(self, value: float) -> float:
        return (self.scale(value) - self.low) / (self.high - self.low) * self.width


def _log_axis(values: Sequence[float], width: float, tick: Callable[[float], str]) -> _Axis:
    # Some air, and at least a power of ten within.
    low, high = math.log10(min(values)) - 0.15, math.log10(max(values)) + 0.15
    if math.ceil(low) > math.floor(high):
        low, high = math.floor(low) - 0.1, math.ceil(high) + 0.1
    powers = range(math.ceil(low), math.floor(high) + 1)
    every = max(1, math.ceil(len(powers) * _MIN_TICK / width))
    return _Axis(low, high, width, [(10.0**power, tick(10.0**power)) for power in powers[::every]], math.log10)


def _linear_axis(values: Sequence[float], width: float, tick: Callable[[float], str]) -> _Axis:
    step = axis_ticks(max(max(values) - min(values), 1.0))[1]
    low, high = min(values) - step / 4, max(values) + step / 4
    numbers = range(math.ceil(low / step), math.floor(high / step) + 1)
    return _Axis(low, high, width, [(number * step, tick(number * step)) for number in numbers], float)


def _draw_panel(panel: Panel, x0: float, y0: float, plot: tuple[float, float], x_axis: _Axis) -> list[Shape]:
    width, height = plot
    ys = [level.y for level in panel.levels] + [point.y for point in panel.points]
    ys += [end for point in panel.points for end in point.spread or ()]
    missing = max(_LEAST_RANGE - (max(ys) - min(ys)), 0.0)
    low, high = min(ys) - missing / 2, max(ys) + missing / 2
    step = axis_ticks(high - low)[1]
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)

    def place(value: float) -> float:
        return y0 + (last - value / step) / (last - first) * height

    shapes = [Shape("text", x0, y0 - 9, "strong", panel.title)] if panel.title else []
    for value in (number * step for number in range(first, last + 1)):
        shapes.append(Shape("line", x0, place(value), "grid", width=width))
        shapes.append(Shape("text", x0 - 6, place(value) + 4, "small", tick_label(value, plus=""), anchor="end"))
    for value, label in x_axis.labels:
        x = x0 + x_axis.place(value)
        shapes.append(Shape("line", x, y0, "grid", height=height))
        shapes.append(Shape("text", x, y0 + height + 16, "small", label, anchor="middle"))
    for level in panel.levels:
        style = "zero" if level.series is None else _line_style(level.series)
        shapes.append(Shape("line", x0, place(level.y), style, width=width, series=level.series))
        shapes += [Shape("text", x0 + 4, place(level.y) - 5, "label", level.name)] if level.name else []
    for colour, points in panel.lines:
        dots = [(x0 + x_axis.place(point.x), place(point.y), point) for point in sorted(points, key=lambda p: p.x)]
        shapes += _draw_line(dots, colour, place, x0)
    return shapes


def _legend_below(panel: Panel, width: float) -> tuple[list[Shape], float]:
    """The names of a panel's own, and the height that they take."""
    return legend(list(panel.series), width, list(panel.series.values())) if panel.series else ([], 0.0)


def _line_style(series: int) -> str:
    return f"s{series % NUM_COLOURS}"


def _draw_line(
    dots: Sequence[tuple[float, float, Point]], series: int, place: Callable[[float], float], left: float
) -> list[Shape]:
    """Dots, what they spread over, and what joins them; places are on the plane already, right of ``left``."""
    style = _line_style(series)
    shapes = [
        Shape("segment", x, y, style, width=next_x - x, height=next_y - y, series=series)
        for (x, y, _), (next_x, next_y, _) in zip(dots, dots[1:], strict=False)
    ]
    for x, y, point in dots:
        if point.spread:
            low, high = map(place, point.spread)
            shapes.append(Shape("line", x, high, style, height=max(low - high, 0.1), series=series))
        shapes.append(dot(x, y, series, point.title, 4.5))
        if point.label and x - 8 - text_width([point.label]) > left:
            shapes.append(Shape("text", x - 8, y - 7, "label", point.label, anchor="end"))
        elif point.label:
            shapes.append(Shape("text", x + 8, y - 7, "label", point.label))
    return shapes
