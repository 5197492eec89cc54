"""Geometry of the report's charts: round axes, and histograms of lengths before and after as SVG outlines."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

# In the units of the viewBox: the drawing, and in it the plot, which leaves room for the labels.
WIDTH, HEIGHT = 320, 124
LEFT, RIGHT, TOP, BOTTOM = 0, 304, 20, 100

_WORD_LIMITS = {20: 4, 40: 10, 60: 20, 80: 20, 100: 20}  # last length drawn by itself: distance of the ticks
_RATIOS = {-3: "1/8", -2: "1/4", -1: "1/2", 0: "1", 1: "2", 2: "4", 3: "8"}  # logarithm: its label

BeforeAfter = tuple[Sequence[int], Sequence[int]]


@dataclass(frozen=True)
class Histogram:
    """Two outlines over one axis.

    Attributes:
        title: what is counted.
        before: the outline as an SVG path.
        after: likewise.
        top: label of the axis's upper end.
        ticks: place on the x axis, and label.
    """

    title: str
    before: str
    after: str
    top: str
    ticks: list[tuple[str, str]]


def axis_ticks(maximum: float) -> list[float]:
    """Round numbers from 0 to at least ``maximum``, two to six of them."""
    if maximum <= 0:
        return [0.0, 0.01]
    power = 10.0 ** math.floor(math.log10(maximum))
    step = next(power * factor for factor in (0.2, 0.5, 1, 2) if power * factor * 5 >= maximum)
    # Through a decimal, since 3 · 0.1 is not 0.3.
    return [float(f"{number * step:.6g}") for number in range(math.ceil(maximum / step - 1e-9) + 1)]


def word_limit(histograms: Iterable[Sequence[int]], edges: Sequence[int]) -> int:
    """The length up to which bins are drawn by themselves: of each histogram, 99% are no longer."""
    histograms = list(histograms)
    for limit in _WORD_LIMITS:
        last = _bin_of(limit, edges)
        if all(sum(counts[: last + 1]) >= 0.99 * sum(counts) for counts in histograms):
            return limit
    return max(_WORD_LIMITS)


def draw_words(title: str, counts: BeforeAfter, edges: Sequence[int], limit: int) -> Histogram:
    """Draw counts by :data:`~fairseq_ext.filtering.statistics.WORD_EDGES`, all above ``limit`` as one bin."""
    last, step = _bin_of(limit, edges), _WORD_LIMITS[limit]
    before, after = ([*side[: last + 1], sum(side[last + 1 :])] for side in counts)
    ticks = [(_bin_of(value, edges), str(value)) for value in range(step, limit, step)]
    return _draw(title, (before, after), [*ticks, (last + 1, f">{limit}")])


def draw_ratios(title: str, counts: BeforeAfter, edges: Sequence[float]) -> Histogram:
    """Draw counts by :data:`~fairseq_ext.filtering.statistics.RATIO_EDGES`."""
    return _draw(title, counts, [(_bin_of(value, edges), label) for value, label in _RATIOS.items()])


def _draw(title: str, counts: BeforeAfter, ticks: Iterable[tuple[int, str]]) -> Histogram:
    """Draw shares of what there was before; a tick names a bin and its label."""
    before, after = counts
    total = sum(before) or 1
    top = axis_ticks(max(*before, *after) / total)[-1]
    width = (RIGHT - LEFT) / len(before)
    outlines = [_outline([count / total / top for count in side], width) for side in counts]
    places = [(f"{LEFT + (number + 0.5) * width:.1f}", label) for number, label in ticks]
    return Histogram(title, outlines[0], outlines[1], f"{100 * top:g}%", places)


def _outline(heights: Sequence[float], width: float) -> str:
    steps = (
        f"V{BOTTOM - height * (BOTTOM - TOP):.1f}H{LEFT + (number + 1) * width:.1f}"
        for number, height in enumerate(heights)
    )
    return f"M{LEFT} {BOTTOM}{''.join(steps)}V{BOTTOM}Z"


def _bin_of(value: float, edges: Sequence[float]) -> int:
    return bisect_right(edges, value)
