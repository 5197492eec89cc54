"""matplotlib figures as SVG: transparent, with colours that are readable on white and on black."""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.colors import Colormap
    from matplotlib.figure import Figure

# Contrast with white and with black is at least 4.5 for grey and at least 3 for the colours.
GREY = "#767676"
COLOURS = ("#2878d0", "#d05a10", "#1f9050", "#c0408f", "#8a6d00", "#7d62d8", "#0f8f9f", "#d04848")
MARKERS = "osD^vP*X"
_STYLE: Any = {
    "svg.fonttype": "none",
    "svg.hashsalt": "fairseq_ext",
    "font.family": "sans-serif",
    "font.size": 9,
    "axes.titlesize": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "legend.frameon": False,
    **dict.fromkeys(("text.color", "axes.edgecolor", "axes.labelcolor", "xtick.color", "ytick.color"), GREY),
}
_LABEL_GAP = 0.08  # between the middles of neighbouring labels, as a share of a panel's height
_SHOWN = 0.005  # smaller shares round to 0 percent and are not labelled

Line = Mapping[float, float]  # y by x


def line_panels(panels: Mapping[str, Mapping[str, Line]], x_label: str, y_label: str) -> str:
    """Draw lines in panels with shared axes, two per row, as SVG. A line has the same colour in all panels.

    ``panels`` maps titles of panels to lines by name.
    """
    from matplotlib.ticker import MaxNLocator

    names = list(dict.fromkeys(name for lines in panels.values() for name in lines))
    columns = min(2, len(panels))
    rows = -(-len(panels) // columns)

    def draw_panel(axes: Axes, title: str) -> None:
        for name, line in panels[title].items():
            number = names.index(name)
            style = "--" if number >= len(COLOURS) else "-"
            colour = COLOURS[number % len(COLOURS)]
            axes.plot(list(line), list(line.values()), style, color=colour, marker="o", markersize=3, label=name)
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        axes.set_title(title, loc="left")
        axes.legend(fontsize=8)

    def draw(figure: Figure) -> None:
        axes = figure.subplots(rows, columns, sharex=True, sharey=True, squeeze=False).flatten()
        for place, title in zip(axes, panels, strict=False):
            draw_panel(place, title)
        for unused in axes[len(panels) :]:
            unused.set_visible(False)
        figure.supxlabel(x_label, fontsize=9)
        figure.supylabel(y_label, fontsize=9)

    return _to_svg(4 * columns, 2.6 * rows, draw)


def heat_map(
    shares: Sequence[Sequence[float]],
    rows: Sequence[str],
    columns: Sequence[str],
    x_label: str,
    y_label: str,
    texts: Sequence[Sequence[str]] | None = None,
) -> str:
    """Draw shares, from 0 to 1, as shaded cells with percentages or the given texts, as SVG."""
    shown = texts or [[f"{100 * share:.0f}" if share >= _SHOWN else "" for share in line] for line in shares]

    def draw(axes: Axes) -> None:
        axes.imshow(shares, cmap=_shades(), vmin=0, vmax=1, aspect="auto")
        axes.set_xticks(range(len(columns)), columns, rotation=45, ha="right")
        axes.set_yticks(range(len(rows)), rows)
        axes.set_xlabel(x_label)
        axes.set_ylabel(y_label)
        for y, line in enumerate(shown):
            for x, text in enumerate(line):
                axes.text(x, y, text, ha="center", va="center", fontsize=7)

    return draw_figure(2.5 + 0.35 * len(columns), 1.5 + 0.25 * len(rows), draw)


class Span(NamedTuple):
    """A value with its interval, if it has one."""

    value: float
    low: float | None = None
    high: float | None = None

    @property
    def error(self) -> Any:
        """Distances from the value to the bounds, as matplotlib's error bars have them: 2×1."""
        return None if self.low is None or self.high is None else [[self.value - self.low], [self.high - self.value]]


def draw_gains(points: Mapping[str, tuple[Span, Span | None]], x_label: str, y_label: str, chosen: str = "") -> str:
    """Draw points with intervals on both axes as SVG, and below them, one per line, those without a second value.

    Names are at the right, near their points' heights, but so that none covers another; ``chosen`` is in bold.
    """
    pairs = {name: (x, y) for name, (x, y) in points.items() if y}
    single = {name: x for name, (x, y) in points.items() if not y}
    style = {name: (COLOURS[i % len(COLOURS)], MARKERS[i % len(MARKERS)]) for i, name in enumerate(points)}

    def mark(axes: Axes, name: str, x: Span, y: Span) -> None:
        colour, marker = style[name]
        axes.errorbar(x.value, y.value, y.error, x.error, fmt=marker, color=colour, markersize=5, linewidth=1)

    def label(axes: Axes, name: str, place: tuple[float, float], height: float, coordinates: Any, width: float) -> None:
        line = {"arrowstyle": "-", "color": style[name][0], "linewidth": width, "shrinkB": 4}
        weight = "bold" if name == chosen else "normal"
        text: Any = {"xytext": (1.04, height), "textcoords": coordinates, "va": "center", "fontweight": weight}
        axes.annotate(name, place, arrowprops=line, **text)

    def draw_pairs(axes: Axes) -> None:
        axes.axhline(0, color=GREY, linewidth=0.6)
        for name, (x, y) in pairs.items():
            mark(axes, name, x, y)
        bottom, top = axes.get_ylim()
        upwards = sorted(pairs, key=lambda name: pairs[name][1].value)
        heights = [(pairs[name][1].value - bottom) / (top - bottom) for name in upwards]
        for name, height in zip(upwards, moved_apart(heights, _LABEL_GAP), strict=True):
            x, y = pairs[name]
            label(axes, name, (x.value, y.value), height, "axes fraction", width=0.5)
        axes.set_ylabel(y_label)

    def draw_single(axes: Axes) -> None:
        for row, (name, x) in enumerate(single.items()):
            mark(axes, name, x, Span(row))
            # In a line of its own, a name needs no other line, which would look like an interval.
            label(axes, name, (x.value, row), row, ("axes fraction", "data"), width=0)
        axes.set_ylim(len(single) - 0.4, -0.6)
        axes.set_yticks([])
        axes.spines["left"].set_visible(False)

    def draw(figure: Figure) -> None:
        panels = figure.subplots(len(parts), sharex=True, squeeze=False, height_ratios=list(parts.values()))[:, 0]
        for axes, draw_part in zip(panels, parts, strict=True):
            axes.axvline(0, color=GREY, linewidth=0.6)
            draw_part(axes)
        panels[-1].set_xlabel(x_label)

    heights = {draw_pairs: 2.4 if pairs else 0, draw_single: 0.3 + 0.22 * len(single) if single else 0}
    parts = {draw_part: height for draw_part, height in heights.items() if height}
    return _to_svg(4.6, 0.5 + sum(heights.values()), draw)


def moved_apart(heights: Sequence[float], gap: float) -> list[float]:
    """Move labels at ascending heights, from 0 to 1, so far that neighbours are ``gap`` apart, and none is above 1."""
    moved: list[float] = []
    for height in heights:
        moved.append(max(height, moved[-1] + gap if moved else height))
    ceiling = 1.0
    for i in reversed(range(len(moved))):
        moved[i] = min(moved[i], ceiling)
        ceiling = moved[i] - gap
    return moved


def draw_figure(width: float, height: float, draw: Callable[[Axes], None]) -> str:
    """Draw a figure with one panel as SVG; width and height are in inches."""
    return _to_svg(width, height, lambda figure: draw(figure.subplots()))


def _to_svg(width: float, height: float, draw: Callable[[Figure], None]) -> str:
    """Render a figure as SVG. The output is deterministic."""
    # Takes a second to import.
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    buffer = io.StringIO()
    with rc_context(_STYLE):
        figure = Figure(figsize=(width, height), layout="constrained")
        draw(figure)
        figure.savefig(buffer, format="svg", transparent=True, metadata={"Date": None})
    return buffer.getvalue()


def _shades() -> Colormap:
    """Create a colour map from transparent to a shade of the first colour on which text is readable."""
    from matplotlib.colors import LinearSegmentedColormap, to_rgba

    return LinearSegmentedColormap.from_list("shades", [to_rgba(COLOURS[0], alpha) for alpha in (0, 0.35)])
