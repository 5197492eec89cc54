"""Pictures of an induced tree: its dendrogram, its domains on a plane, and in which clusters they lie."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

_MOST_POINTS = 300  # a domain, in the scatter plot; more only make a blot
_FAINT = "#8a8f98"
_LINE = "#2b5c8a"


def draw_dendrogram(linkage: np.ndarray, labels: Sequence[str], path: Path) -> None:
    """Draw the joins of the clusters, the root at the left.

    Args:
        linkage: scipy's.
        labels: of its leaves, in their order.
        path: picture to write.
    """
    from matplotlib.figure import Figure
    from scipy.cluster.hierarchy import dendrogram

    figure = Figure(figsize=(10, 1.2 + 0.32 * len(labels)), layout="constrained")
    axis = figure.subplots()
    lines = dendrogram(linkage, labels=list(labels), no_plot=True)
    for depths, heights in zip(lines["dcoord"], lines["icoord"], strict=True):
        axis.plot(depths, heights, color=_LINE, linewidth=1.4)
    # scipy puts its leaves ten units apart, the first at 5.
    axis.set_yticks(np.arange(len(labels)) * 10 + 5, lines["ivl"])
    axis.yaxis.tick_right()
    axis.tick_params(axis="y", length=0)
    axis.set_ylim(10 * len(labels), 0)
    axis.set_xlim(1.03 * linkage[:, 2].max(), 0)
    axis.set_xlabel("symmetrised KL divergence at which clusters are joined (average linkage)")
    axis.spines[["left", "top", "right"]].set_visible(False)
    _save(figure, path)


def draw_scatter(
    points: np.ndarray, labels: np.ndarray, domains: Sequence[str], explained: Sequence[float], path: Path
) -> None:
    """Draw the sequences on the first two principal components, in their domains' colours.

    A number stands at the median of each domain.

    Args:
        points: N×P with P ≥ 1, of which two are drawn.
        labels: N, each sequence's domain.
        domains: names.
        explained: shares of the variance that the two components explain.
        path: picture to write.
    """
    from matplotlib.figure import Figure

    if points.shape[1] == 1:
        points = np.hstack([points, np.zeros_like(points)])
    figure = Figure(figsize=(11, 8), layout="constrained")
    axis = figure.subplots()
    for number, (name, colour) in enumerate(zip(domains, domain_colours(len(domains)), strict=True)):
        own = points[labels == number]
        shown = own[:: -(-len(own) // _MOST_POINTS)]
        axis.scatter(shown[:, 0], shown[:, 1], s=7, color=colour, alpha=0.45, linewidths=0)
        # For the legend, a dot that one cannot see through.
        axis.scatter([], [], s=40, color=colour, linewidths=0, label=f"{number + 1}  {name}")
        box = {"boxstyle": "circle,pad=0.25", "facecolor": "white", "edgecolor": colour, "linewidth": 1.6}
        middle = np.median(own[:, :2], axis=0)
        axis.annotate(str(number + 1), middle, ha="center", va="center", fontsize=8, bbox=box, zorder=4)
    axis.set_xlabel(f"first principal component ({explained[0]:.0%} of the variance)")
    axis.set_ylabel(f"second principal component ({explained[1]:.0%})" if len(explained) > 1 else "")
    axis.spines[["top", "right"]].set_visible(False)
    axis.legend(loc="center left", bbox_to_anchor=(1.01, 0.5), frameon=False, fontsize=9)
    _save(figure, path)


def draw_domains_by_cluster(
    counts: np.ndarray, domains: Sequence[str], clusters: Sequence[str], is_kept: Sequence[bool], path: Path
) -> None:
    """Draw how each domain's sequences are spread over the clusters; empty clusters in grey.

    Args:
        counts: D×K, sequences.
        domains: names of the rows.
        clusters: names of the columns.
        is_kept: which of the clusters are leaves of the tree.
        path: picture to write.
    """
    from matplotlib.figure import Figure

    shares = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    size = (3.5 + 0.5 * len(clusters), 2.2 + 0.36 * len(domains))
    figure = Figure(figsize=size, layout="constrained")
    axis = figure.subplots()
    axis.imshow(shares, vmin=0, vmax=1, cmap="Blues", aspect="auto")
    for (row, column), count in np.ndenumerate(counts):
        if count:
            colour = "white" if shares[row, column] > 0.5 else "black"
            axis.text(column, row, str(count), ha="center", va="center", color=colour, fontsize=8)
    axis.set_xticks(range(len(clusters)), clusters, rotation=45, ha="right", rotation_mode="anchor")
    for tick, kept in zip(axis.get_xticklabels(), is_kept, strict=True):
        tick.set_color("black" if kept else _FAINT)
    axis.set_yticks(range(len(domains)), domains)
    axis.set_xlabel("cluster (grey: wins no domain, dropped)" if not all(is_kept) else "cluster")
    axis.set_ylabel("domain; figures are sequences")
    _save(figure, path)


def domain_colours(count: int) -> list[Any]:
    """Colours as different as so many can be."""
    from matplotlib import colormaps

    if count <= 20:
        # Strong shades first, their pale neighbours after them.
        order = [*range(0, 20, 2), *range(1, 20, 2)]
        return [colormaps["tab20"](number) for number in order[:count]]
    return [colormaps["gist_rainbow"](number / count) for number in range(count)]


def _save(figure: Any, path: Path) -> None:
    # Without the drawing program's version, equal drawings give equal files.
    figure.savefig(path, dpi=130, metadata={"Software": None})
