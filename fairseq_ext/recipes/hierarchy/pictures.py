"""Pictures of trees, and of the clusters of their domains."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from fairseq_ext.inputs.domain_tree import DomainTree
from fairseq_ext.metrics.plots import COLOURS, GREY, draw_figure, heat_map
from fairseq_ext.metrics.render import Plot

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def draw_domains_by_cluster(tree: DomainTree, record: Mapping[str, Any]) -> str:
    """Draw the clusters of every domain's sequences, in percent and in the order of the tree, as SVG.

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
    """Figure 1 (drawn by hand) or 2 (induced)."""
    note = (
        f"{len(tree.names)} nodes, {len(tree.leaves)} leaves; a domain's path has {tree.mean_path_length:.1f} nodes on "
        "average."
    )
    svg = draw_figure(8, 0.6 + 0.25 * len(tree.leaves), partial(_draw_tree, tree))
    return Plot(f"tree-{name}", f"Figure {2 if is_induced else 1}. The tree {name}", svg, note)


def _draw_tree(tree: DomainTree, axes: Axes) -> None:
    """The root at the left, leaves at the right."""
    places = _places(tree)
    for row, (x, y) in places.items():
        name, children = tree.names[row], tree.children[row]
        for child in children:
            to_x, to_y = places[child]
            axes.plot([x, x, to_x], [y, to_y, to_y], color=GREY, linewidth=1)
        label = name + others_on(tree, name)
        offset, side = ((-3, 3), "right") if children else ((6, -3), "left")
        axes.annotate(label, (x, y), offset, textcoords="offset points", ha=side, fontsize=7 if children else 9)
        axes.plot(x, y, "o", color=COLOURS[0 if children else 2], markersize=4)
    axes.set_ylim(len(tree.leaves) - 0.5, -0.5)
    axes.set_axis_off()


def _places(tree: DomainTree) -> dict[int, tuple[float, float]]:
    """Where each node is drawn: x is minus the longest way down to a leaf, y the middle of its children."""
    places = {tree.names.index(leaf): (0.0, float(number)) for number, leaf in enumerate(tree.drawn_leaves)}

    def place(row: int) -> tuple[float, float]:
        if row not in places:
            below = [place(child) for child in tree.children[row]]
            places[row] = min(x for x, _ in below) - 1, (below[0][1] + below[-1][1]) / 2
        return places[row]

    for row in range(len(tree.names)):
        place(row)
    return places


def others_on(tree: DomainTree, node: str) -> str:
    """The domains on a node as words behind its name; none if it is named like its only one."""
    domains = sorted(domain for domain, row in tree.domains.items() if tree.names[row] == node)
    return "" if domains in ([], [node]) else f": {', '.join(domains)}"
