"""Report of the hierarchy recipe: tables and figures of Chronopoulou et al. (2022).

*Efficient Hierarchical Domain Adaptation for Pretrained Language Models*, NAACL 2022. Averages over domains are
perplexities of mean losses, as in the paper's Table 2; the paper's other tables average perplexities.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product
from typing import TYPE_CHECKING, Any

from fairseq_ext.base.domain_tree import DomainTree, read_tree
from fairseq_ext.base.json_file import read_json
from fairseq_ext.experiments.hierarchy.config import (
    ALL,
    BEST_PATH,
    CHOOSING_LOSS,
    FLOPS,
    LOSS,
    MEAN_PATH,
    MULTI,
    NONE,
    OWN,
    RECORD_FILE,
    SINGLE,
    TREE,
    UNIFORM,
    VOTES,
    Hierarchy,
    Routing,
    chosen,
)
from fairseq_ext.experiments.hierarchy.induce_tree import draw_domains_by_cluster, others_on
from fairseq_ext.experiments.metrics.comparison import Comparison
from fairseq_ext.experiments.metrics.plots import COLOURS, GREY, draw_figure
from fairseq_ext.experiments.metrics.records import Mean, Record, Records
from fairseq_ext.experiments.metrics.render import Page, Plot, Sections
from fairseq_ext.experiments.metrics.tables import Column, Table
from fairseq_ext.experiments.report import compare_systems, tuning_tables

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_PAPER = "{} in Chronopoulou et al. (2022)."
PERPLEXITY = "perplexity"  # metric of comparisons
IN_DOMAIN, ON_UNSEEN = "perplexity in domain", "perplexity on unseen domains"
_AVERAGE = "average"
_LEAVES = "Leaves, and what they were trained on"
_AVERAGES = "The average is the perplexity of the mean loss."

# System and routing by the name of a row.
Rows = Mapping[str, tuple[str, Routing]]


def page(experiment: Hierarchy, records: Records) -> Page:
    """Create the report from records."""
    files = {name: experiment.tree_file(name) for name in experiment.tree if experiment.systems_on(name)}
    setups = [Setup(experiment, name, records, read_tree(path)) for name, path in files.items() if path.is_file()]
    sections: Sections = {
        "Cost": [costs(records, [name for setup in setups for name in setup.systems])],
        **{f"Tree: {setup.name}": setup.blocks() for setup in setups},
        "Tuning": tuning_tables(records),
    }
    summary = (
        f"Hierarchical adapters: perplexity of {len(experiment.systems)} systems, "
        f"{len(records.domains(LOSS, **ALL))} unseen domains."
    )
    comparisons = [comparison for setup in setups for comparison in setup.comparisons()]
    perplexities = [record for setup in setups for record in setup.perplexities()]
    return Page(
        experiment.work_dir.name,
        summary,
        sections,
        list(dict.fromkeys(comparisons)),
        records=list(dict.fromkeys(perplexities)),
    )


@dataclass(frozen=True)
class Setup:
    """A tree of an experiment and the systems that use it."""

    experiment: Hierarchy
    name: str
    records: Records
    tree: DomainTree

    @property
    def is_induced(self) -> bool:
        """Whether the tree is induced from text."""
        return self.name in self.experiment.induced_trees

    @property
    def systems(self) -> Mapping[str, str]:
        """Names of the systems on the tree, with their kind of adapters."""
        return self.experiment.systems_on(self.name)

    @property
    def base(self) -> str:
        """The base system that the systems on the tree start from."""
        starts = [self.experiment.systems[name].start for name in self.systems]
        return next((start for start in starts if start and start not in self.systems), "")

    @property
    def unseen(self) -> Sequence[str]:
        """Unseen domains: the only domains with scores over all paths."""
        return self.records.domains(LOSS, **ALL)

    def compared(self) -> Mapping[str, tuple[Rows, Sequence[str]]]:
        """Return the rows and domains that systems are compared on, by metric: those of the tree, and unseen ones."""
        of_base: Rows = {self.base: (self.base, NONE)}
        in_domain = {**of_base, **{name: (name, OWN) for name in self.systems}}
        unseen = {**of_base, **{row: routed for name in self.systems for row, routed in self._rows_unseen(name)}}
        return {IN_DOMAIN: (in_domain, sorted(self.tree.domains)), ON_UNSEEN: (unseen, self.unseen)}

    def _rows_unseen(self, name: str) -> Iterator[tuple[str, tuple[str, Routing]]]:
        """Yield the rows of a system in tables on unseen domains."""
        if self.systems[name] == SINGLE:
            yield f"{name}: mean", (name, MEAN_PATH)
        elif self.systems[name] == MULTI:
            yield name, (name, ALL)
        else:
            for count in self.experiment.evaluate.num_paths:
                for weights in self.experiment.path_weights(self.name, count):
                    yield f"{name}: {_paths(count, weights)}", (name, chosen(count, weights))
            yield f"{name}: all paths", (name, ALL)

    def blocks(self) -> list[Table | Plot]:
        """Return the tables and figures of the tree."""
        numbers = (7, 5) if self.is_induced else (2, 3)
        compared = zip(self.compared().items(), numbers, strict=True)
        return [
            tree_figure(self.name, self.tree, self.is_induced),
            *([self._clusters()] if self.is_induced else []),
            *(
                self._perplexities(f"{metric.capitalize()}: {self.name}", *rows, _PAPER.format(f"Table {number}"))
                for (metric, rows), number in compared
            ),
            *(self._every_path(name) for name in self.systems if self.experiment.has_every_path(name)),
            *self._chosen_paths(),
        ]

    def _clusters(self) -> Plot:
        """Create Figure 4: clusters of the blocks of each domain."""
        path = self.experiment.tree_dir(self.name) / RECORD_FILE
        svg = draw_domains_by_cluster(self.tree, read_json(path, "induce the tree again"))
        note = "In percent of each domain's blocks, in the order of the tree. Clusters without a domain are dropped. "
        note += _PAPER.format("Figure 4")
        return Plot(f"clusters-{self.name}", f"Domains by cluster: {self.name}", svg, note)

    def _every_path(self, name: str) -> Table:
        """Create Table 4 (a tree) or 6 (single adapters): results for each path."""
        routings = [record.dims for record in self.records.select(LOSS, name)]
        named = {f"{routing['paths']} path": routing for routing in routings if routing in (BEST_PATH, MEAN_PATH)}
        by_leaf = {str(routing["path"]): routing for routing in routings if "path" in routing}
        rows = {row: (name, routing) for row, routing in {**by_leaf, **named}.items()}
        number, what = ("6", "Single adapters") if self.systems[name] == SINGLE else ("4", "Different paths")
        note = f"The best path is chosen separately for each test set. {_PAPER.format(f'Table {number}')}"
        return self._perplexities(f"{what} on unseen domains: {name}", rows, self.unseen, note, best=None)

    def _perplexities(
        self, title: str, rows: Rows, domains: Sequence[str], note: str, best: Callable[..., Any] | None = min
    ) -> Table:
        """Create a table of perplexities by domain and their average. Rows without measurements are omitted."""

        def mean(domains: Sequence[str], row: str) -> Mean | None:
            return Mean.of(self._perplexity(*rows[row], domains).values())

        columns = [Column(domain, partial(mean, [domain]), best=best) for domain in domains]
        columns.append(Column(_AVERAGE, partial(mean, domains), best=best))
        measured = [row for row in rows if any(column.of(row) for column in columns)]
        return Table(title, "Domain", measured, columns, [note, _AVERAGES], across=True)

    def _perplexity(self, system: str, routing: Routing, domains: Sequence[str]) -> dict[str, float]:
        """Return the perplexity of the mean loss over domains by run. Runs not measured on all domains are omitted."""
        losses = self.records.by_run(system, LOSS, *domains, **routing) if domains else {}
        return {run: math.exp(value) for run, value in losses.items()}

    def perplexities(self) -> Iterator[Record]:
        """Yield the perplexities of the tables on the tree's domains and on unseen domains, by row and run."""
        for metric, (rows, domains) in self.compared().items():
            of_column = {**{domain: [domain] for domain in domains}, f"{_AVERAGE} of {len(domains)}": domains}
            for row, (column, averaged) in product(rows, of_column.items()):
                yield from self._records({row: rows[row]}, averaged, column, metric)

    def _records(self, rows: Rows, domains: Sequence[str], where: str, metric: str) -> Iterator[Record]:
        """Yield the perplexity of each row and run, averaged over domains, as that of ``where``."""
        for row, scored in rows.items():
            for run, value in self._perplexity(*scored, domains).items():
                yield Record(system=row, run=run, domain=where, metric=metric, value=value)

    def _chosen_paths(self) -> list[Table]:
        """Create Table 9: one for an induced tree, because systems share its clusters; otherwise one per system."""
        trees = [name for name, adapters in self.systems.items() if adapters == TREE]
        metric, names = (VOTES, [self.name] if trees else []) if self.is_induced else (CHOOSING_LOSS, trees)
        return [self._chosen_by(metric, name) for name in names]

    def _chosen_by(self, metric: str, name: str) -> Table:
        """List the leaves chosen for each unseen domain, best first, with the domains they were trained on.

        ``metric`` is the criterion of the choice: votes for a tree, or the loss of a system over each path.
        """
        of_choice = self.records.select(metric, name)
        choices: dict[str, list[str]] = {}
        for record in of_choice:
            if record.run == of_choice[0].run:
                leaf, share = str(record.dims["path"]), f"{record.value / (record.n or 1):.0%}"
                support = share if metric == VOTES else f"{math.exp(record.value):.2f}"
                choices.setdefault(record.domain, []).append(f"{leaf} ({support}){others_on(self.tree, leaf)}")
        most = max((record.n or 0 for record in of_choice), default=0)
        what = "share of the votes of" if metric == VOTES else "perplexity with this path on"
        note = f"In brackets: the {what} up to {most:,} blocks. Of several runs, the first is shown. "
        note += _PAPER.format("Table 9")
        count = max(self.experiment.evaluate.num_paths)
        leaves = Column(_LEAVES, lambda domain: "; ".join(choices[domain][:count]), is_text=True)
        return Table(f"Chosen paths: {name}", "Unseen domain", list(choices), [leaves], [note])

    def comparisons(self) -> list[Comparison]:
        """Compare the perplexity of each row, averaged over domains, with that of its baselines."""
        in_domain, unseen = self.compared().values()
        return [*self._compare(*in_domain, f"in domain: {self.name}"), *self._compare(*unseen, "unseen")]

    def _compare(self, rows: Rows, domains: Sequence[str], where: str) -> list[Comparison]:
        averages = list(self._records(rows, domains, where, PERPLEXITY))
        pairs = {
            row: [other for other, (name, _) in rows.items() if name in self._baselines(system)]
            for row, (system, _) in rows.items()
        }
        return compare_systems(Records(averages), pairs, PERPLEXITY, [where])

    def _baselines(self, system: str) -> Sequence[str]:
        """Return the baselines of a system: by default the base, and for trees also the other kinds of adapters."""
        if self.experiment.compare:
            return self.experiment.compare.get(system, ())
        if system == self.base:
            return ()
        others = [name for name, adapters in self.systems.items() if adapters != TREE]
        return [self.base, *(others if self.systems[system] == TREE else [])]


# Tables and figures


def costs(records: Records, systems: Sequence[str]) -> Table:
    """Create Table 1: parameters and training of the adapters."""
    measured = [name for name in systems if records.mean(name, "added")]

    def column(heading: str, metric: str, form: str = ",.0f") -> Column:
        return Column(heading, lambda system: records.value(system, metric), form)

    columns = [
        column("Adapter size", "bottleneck_dim"),
        column("Adapters", "num_adapters"),
        column("Mean path", "mean_path_length", ".1f"),
        column("Base model", "base"),
        column("Added", "added"),
        column("Active", "active"),
        column("FLOPs", FLOPS, "+.0%"),
        column("Updates: root", "updates"),
        column("Updates: leaf", "leaf_updates"),
    ]
    notes = [
        "Base model, Added and Active are numbers of parameters. Active: the adapters on a path of mean length and the "
        "shared layer norms. FLOPs per token are relative to the base model's 2N, where N excludes embeddings. "
        "Updates: leaf is the number of updates divided by the number of leaves.",
        _PAPER.format("Table 1"),
    ]
    return Table("Parameters and training of the adapters", "System", measured, columns, notes)


def _paths(count: int, weights: str) -> str:
    number = "1 path" if count == 1 else f"{count} paths"
    return f"{number}, uniform" if weights == UNIFORM else number


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
