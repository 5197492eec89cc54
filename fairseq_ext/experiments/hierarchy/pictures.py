"""The pictures of a language model report: trees, clusters by domain, and what the systems gain over their base."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from fairseq_ext.domains.domain_tree import DomainTree
from fairseq_ext.experiments.hierarchy.results import CLUSTERS_FILE, PERPLEXITY_FILE, LmDesign, LmResults, Setup
from fairseq_ext.experiments.hierarchy.tables import (
    AVERAGE,
    Column,
    domains_of_setup,
    in_domain_columns,
    unseen_columns,
)
from fairseq_ext.induction.pictures import draw_domains_by_cluster
from fairseq_ext.report.content import Below, Picture, Shape
from fairseq_ext.report.page import NUM_COLOURS, signed
from fairseq_ext.report.pictures import DotPoint, dot_plot

_ROW = 26.0
_LETTER = 8.0
_LABELS = 420.0  # at most, of the leaves
_WIDTH = 900.0
_LONGEST_STEP = 130.0


def draw_tree(setup: Setup, tree: DomainTree, file: str) -> Picture:
    """Figure 1 or 2: the root at the left, the leaves at the right, and the domains that each leaf stands for."""
    children = tree.children
    leaves = [tree.names.index(name) for name in tree.drawn_leaves]
    heights = {row: _height(row, children) for row in range(len(tree.names))}
    domains = {leaf: [name for name, row in tree.domains.items() if row == leaf] for leaf in leaves}
    labels = {leaf: _label(tree.names[leaf], domains[leaf]) for leaf in leaves}
    room = min(_LABELS, _LETTER * max(map(len, labels.values())) + 20)
    tallest = max(heights.values())
    step = min(_LONGEST_STEP, (_WIDTH - room) / max(tallest, 1))
    x = {row: 12 + (tallest - height) * step for row, height in heights.items()}
    y = {leaf: 18 + number * _ROW for number, leaf in enumerate(leaves)}
    for row in sorted(heights, key=lambda row: heights[row]):
        if children[row]:
            y[row] = statistics.fmean((y[children[row][0]], y[children[row][-1]]))
    shapes: list[Shape] = []
    for row, below in enumerate(children):
        if not below:
            shapes.append(Shape("text", x[row] + 10, y[row] + 4.5, "", labels[row]))
            continue
        top, bottom = y[below[0]], y[below[-1]]
        shapes.append(Shape("line", x[row], top, "spread", height=max(bottom - top, 0.1)))
        shapes += [Shape("line", x[row], y[child], "spread", width=x[child] - x[row]) for child in below]
    for row, name in enumerate(tree.names):
        text = f"{name}: {', '.join(sorted(domains[row]))}" if row in domains else name
        style = "f0" if children[row] else "f3"
        shapes.append(Shape("dot", x[row], y[row], style, text, width=4))
        if children[row] and len(name) * 7 < step - 8:
            # Above the line from the parent; a root has none.
            place, anchor = (x[row] - 7, "end") if tree.parents[row] is not None else (x[row] + 7, "start")
            shapes.append(Shape("text", place, y[row] - 5, "small", name, anchor=anchor))
    number = 2 if setup.is_induced else 1
    notes = [
        f"{len(tree.names)} nodes, {len(leaves)} leaves; a domain’s path has {tree.mean_path_length:.1f} on average."
    ]
    return Picture(
        f"tree-{setup.tree}",
        f"Figure {number}. The tree {setup.tree}",
        12 + tallest * step + room,
        18 + len(leaves) * _ROW,
        shapes,
        Below(notes, [file]),
    )


def draw_clusters(setup: Setup, tree: DomainTree, record: Mapping[str, Any]) -> Picture:
    """Figure 4: which clusters the sequences of every domain belong to."""
    picture = draw_domains_by_cluster(tree, record)
    return replace(
        picture,
        name=f"clusters-{setup.tree}",
        title=f"Figure 4. {picture.title}: {setup.tree}",
        below=replace(picture.below, sources=[CLUSTERS_FILE.format(setup.tree)]),
    )


def draw_reductions(results: LmResults, design: LmDesign, setup: Setup, *, is_unseen: bool) -> Picture | None:
    """Figure 3: by how much each system's perplexity is below the base's, in percent; None if nothing was measured."""
    base, *others = unseen_columns(setup, design) if is_unseen else in_domain_columns(setup, design)
    domains = results.unseen if is_unseen else domains_of_setup(results, setup)
    changes = {
        (column.heading, row): change
        for column in others
        for row in [AVERAGE, *domains]
        if (change := _reduction(results, base, column, domains if row == AVERAGE else [row])) is not None
    }
    series = list(dict.fromkeys(heading for heading, _ in changes))[:NUM_COLOURS]
    if not series:
        return None
    points = [
        DotPoint(row, series.index(heading), change, 0.0, f"{heading}, {row}: {signed(change)}%")
        for (heading, row), change in changes.items()
        if heading in series
    ]
    axis = f"change of perplexity against {setup.base}, in percent"
    rows = [row for row in [AVERAGE, *domains] if any(row == shown for _, shown in changes)]
    draw = partial(dot_plot, rows, series, points, axis, [AVERAGE])
    shapes, size = draw()
    runs = dict.fromkeys(run for name in [setup.base, *setup.systems] for run in design.runs[name])
    below = Below(["To the left is better."], [PERPLEXITY_FILE.format(r) for r in runs if r in results.perplexity])
    where = "on unseen domains" if is_unseen else "in domain"
    title = f"Figure 3. Change of perplexity {where}: {setup.tree}"
    return Picture(
        f"{'unseen' if is_unseen else 'reductions'}-{setup.tree}", title, *size, shapes, below, draw(is_narrow=True)
    )


def _reduction(results: LmResults, base: Column, column: Column, domains: Sequence[str]) -> float | None:
    figures = [each.by_run(results, *domains) for each in (base, column)]
    if not all(figures):
        return None
    before, after = (math.exp(statistics.fmean(map(math.log, found))) for found in figures)
    return 100 * (after / before - 1)


def _height(row: int, children: Sequence[Sequence[int]]) -> int:
    return 1 + max(_height(child, children) for child in children[row]) if children[row] else 0


def _label(leaf: str, domains: Sequence[str]) -> str:
    text = leaf if list(domains) == [leaf] else f"{leaf}: {', '.join(sorted(domains))}"
    most = int((_LABELS - 20) / _LETTER)
    return text if len(text) <= most else text[: most - 1] + "…"
