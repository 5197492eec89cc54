"""Pictures of an induced tree: its dendrogram, its domains on a plane, and in which clusters they lie."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from fairseq_ext.domains.domain_tree import DomainTree
from fairseq_ext.report.plots import heat_map

_MOST_POINTS = 300  # a domain, in the scatter plot; more only make a blot
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


def draw_domains_by_cluster(tree: DomainTree, record: Mapping[str, Any]) -> str:
    """Draw which clusters the sequences of every domain belong to, in percent and in the order of the tree.

    Args:
        tree: the induced one.
        record: the content of ``clusters.json``.

    Returns:
        SVG.
    """
    counts = dict(zip(record["domains"], record["counts"], strict=True))
    number_of = {cluster["leaf"]: cluster["number"] for cluster in record["clusters"]}
    leaves = [leaf for leaf in tree.drawn_leaves if leaf in number_of]
    rows = sorted(counts, key=lambda name: (leaves.index(tree.names[tree.domains[name]]), name))
    columns = [number_of[leaf] for leaf in leaves] + list(record["empty"])
    shares = [[counts[name][number] / max(sum(counts[name]), 1) for number in columns] for name in rows]
    return heat_map(shares, rows, [*leaves, *("(dropped)" for _ in record["empty"])], "cluster", "domain")


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
