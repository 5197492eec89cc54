"""matplotlib figures as SVG: transparent, with colours that are readable on white and on black."""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from matplotlib.axes import Axes
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

    def draw(figure: Figure) -> None:
        places = figure.subplots(rows, columns, sharex=True, sharey=True, squeeze=False).flatten()
        for axes, (title, lines) in zip(places, panels.items(), strict=False):
            for name, line in lines.items():
                number = names.index(name)
                style = "--" if number >= len(COLOURS) else "-"
                colour = COLOURS[number % len(COLOURS)]
                axes.plot(list(line), list(line.values()), style, color=colour, marker="o", markersize=3, label=name)
            axes.xaxis.set_major_locator(MaxNLocator(integer=True))
            axes.set_title(title, loc="left")
            axes.legend(fontsize=8)
        for unused in places[len(panels) :]:
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
        from matplotlib.colors import LinearSegmentedColormap, to_rgba

        # From transparent to a shade of the first colour on which text is readable.
        shades = LinearSegmentedColormap.from_list("shades", [to_rgba(COLOURS[0], alpha) for alpha in (0, 0.35)])
        axes.imshow(shares, cmap=shades, vmin=0, vmax=1, aspect="auto")
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

    In the legend, ``chosen`` is in bold.
    """
    single = [name for name, (_, y) in points.items() if not y]
    has_pairs = len(single) < len(points)
    heights = [2.4] * has_pairs + [0.3 + 0.22 * len(single)] * bool(single)

    def draw(figure: Figure) -> None:
        panels = figure.subplots(len(heights), sharex=True, squeeze=False, height_ratios=heights)[:, 0]
        for i, (name, (x, y)) in enumerate(points.items()):
            axes, y = (panels[0], y) if y else (panels[-1], Span(single.index(name)))
            marker = MARKERS[(i + i // len(COLOURS)) % len(MARKERS)]
            style: Any = {"color": COLOURS[i % len(COLOURS)], "markersize": 5, "linewidth": 1}
            axes.errorbar(x.value, y.value, y.error, x.error, fmt=marker, label=name, **style)
        for axes in panels:
            axes.axvline(0, color=GREY, linewidth=0.6)
        if has_pairs:
            panels[0].axhline(0, color=GREY, linewidth=0.6)
            panels[0].set_ylabel(y_label)
        if single:
            panels[-1].set_ylim(len(single) - 0.4, -0.6)
            panels[-1].set_yticks([])
            panels[-1].spines["left"].set_visible(False)
        panels[-1].set_xlabel(x_label)
        for text in figure.legend(loc="outside right center").get_texts():
            text.set_fontweight("bold" if text.get_text() == chosen else "normal")

    return _to_svg(4.6, 0.5 + sum(heights), draw)


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
