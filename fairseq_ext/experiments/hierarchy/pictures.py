"""Figures of trees and of the clusters of their domains."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from fairseq_ext.base.domain_tree import DomainTree
from fairseq_ext.experiments.metrics.plots import COLOURS, GREY, draw_figure, heat_map
from fairseq_ext.experiments.metrics.render import Plot

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def draw_domains_by_cluster(tree: DomainTree, record: Mapping[str, Any]) -> str:
    """Draw the percentage of each domain's sequences by cluster, in the order of the tree, as SVG.

    ``record`` is the content of ``clusters.json``.
    """
    counts = dict(zip(record["domains"], record["counts"], strict=True))
    number_of = {cluster["leaf"]: cluster["number"] for cluster in record["clusters"]}
    leaves = [leaf for leaf in tree.drawn_leaves if leaf in number_of]
    rows = sorted(counts, key=lambda name: (leaves.index(tree.names[tree.domains[name]]), name))
    columns = [number_of[leaf] for leaf in leaves] + list(record["empty"])
    shares = [[counts[name][number] / max(sum(counts[name]), 1) for number in columns] for name in rows]
    return heat_map(shares, rows, [*leaves, *("(dropped)" for _ in record["empty"])], "cluster", "domain")


def tree_figure(name: str, tree: DomainTree, is_induced: bool) -> Plot:
    """Create Figure 1 (hand-made tree) or 2 (induced tree)."""
    note = (
        f"{len(tree.names)} nodes, {len(tree.leaves)} leaves; a domain's path has {tree.mean_path_length:.1f} nodes on "
        "average."
    )
    svg = draw_figure(8, 0.6 + 0.25 * len(tree.leaves), partial(_draw_tree, tree))
    return Plot(f"tree-{name}", f"Figure {2 if is_induced else 1}. The tree {name}", svg, note)


def _draw_tree(tree: DomainTree, axes: Axes) -> None:
    """Draw the root on the left, leaves on the right, and each inner node centred between its children."""

    def draw(row: int) -> tuple[float, float]:
        """Draw a node and its descendants. Return its position; x is minus the longest distance to a leaf below."""
        name, below = tree.names[row], [draw(child) for child in tree.children[row]]
        if below:
            x, y = min(x for x, _ in below) - 1, (below[0][1] + below[-1][1]) / 2
        else:
            x, y = 0.0, float(tree.drawn_leaves.index(name))
        for to_x, to_y in below:
            axes.plot([x, x, to_x], [y, to_y, to_y], color=GREY, linewidth=1)
        offset, side = ((-3, 3), "right") if below else ((6, -3), "left")
        label, size = name + others_on(tree, name), 7 if below else 9
        axes.annotate(label, (x, y), offset, textcoords="offset points", ha=side, fontsize=size)
        axes.plot(x, y, "o", color=COLOURS[0 if below else 2], markersize=4)
        return x, y

    draw(tree.parents.index(None))
    axes.set_ylim(len(tree.leaves) - 0.5, -0.5)
    axes.set_axis_off()


def others_on(tree: DomainTree, node: str) -> str:
    """Format the domains of a node as a suffix for its name; empty if the name is that of its only domain."""
    domains = sorted(domain for domain, row in tree.domains.items() if tree.names[row] == node)
    return "" if domains in ([], [node]) else f": {', '.join(domains)}"
