"""Pictures of an induced tree: its dendrogram, and the clusters of its domains."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from fairseq_ext.inputs.domain_tree import DomainTree
from fairseq_ext.metrics.plots import heat_map

_LINE = "#2b5c8a"


def draw_dendrogram(linkage: np.ndarray, labels: Sequence[str], path: Path) -> None:
    """Draw the merges of the clusters, with the root at the left.

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
    axis.set_xlabel("symmetrised KL divergence at which clusters are merged (average linkage)")
    axis.spines[["left", "top", "right"]].set_visible(False)
    # Without the drawing program's version, equal drawings give equal files.
    figure.savefig(path, dpi=130, metadata={"Software": None})


def draw_domains_by_cluster(tree: DomainTree, record: Mapping[str, Any]) -> str:
    """Draw the clusters of every domain's sequences, in percent and in the order of the tree.

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
