"""The report: the tables and figures of Chronopoulou et al. (2022), declared over records.

*Efficient Hierarchical Domain Adaptation for Pretrained Language Models*, NAACL 2022. Averages over domains are
perplexities of mean losses, as in the paper's Table 2; its other tables average perplexities.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from fairseq_ext.domains.domain_tree import DomainTree, read_tree
from fairseq_ext.engine.steps import Step
from fairseq_ext.induction.options import PATHS_FILE, RECORD_FILE, VOTES_FILE
from fairseq_ext.inputs.json_file import read_json
from fairseq_ext.recipes.hierarchy.config import MULTI, SINGLE, TREE, Hierarchy
from fairseq_ext.recipes.hierarchy.measurement import (
    ALL,
    BELOW,
    BEST_PATH,
    CHOOSING_LOSS,
    FLOPS,
    MEAN_PATH,
    NONE,
    OWN,
    PATH,
    TOKEN,
    VOTES,
    after,
    all_records,
    by_sequence,
    chosen,
    loss,
    perplexity_steps,
)
from fairseq_ext.recipes.hierarchy.stages import paths_dir
from fairseq_ext.recipes.report import compare_systems, records_files, report_step, training_files, tuning_tables
from fairseq_ext.report.comparison import Comparison
from fairseq_ext.report.measurements import Mean, Record, Records
from fairseq_ext.report.plots import COLOURS, GREY, draw_figure
from fairseq_ext.report.render import Page, Plot, Sections
from fairseq_ext.report.tables import Column, Table

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_VERSION = 5
_PERPLEXITY, _UNSEEN = "perplexity", "unseen"
_AVERAGE = "average"
_AVERAGES = "The average is the perplexity of the mean loss."

# By the name of a row, a system and the routing that it is scored over.
Rows = Mapping[str, tuple[str, str]]


@dataclass(frozen=True)
class Setup:
    """A tree, and the systems that are compared over its domains.

    Attributes:
        name: of the tree.
        is_induced: whether it was made from the text.
        base: the system that the others start from.
        systems: by name, which adapters they have.
        every_path: the systems of which every path was measured.
        num_paths: how many paths were chosen.
        choose_tokens: by how many first tokens blocks chose paths.
        tree: None if it has not been induced yet.
        clusters: the content of its ``clusters.json``; None for a tree drawn by hand.
    """

    name: str
    is_induced: bool
    base: str
    systems: Mapping[str, str]
    every_path: Sequence[str] = ()
    num_paths: Sequence[int] = ()
    choose_tokens: Sequence[int] = ()
    tree: DomainTree | None = None
    clusters: Mapping[str, Any] | None = field(default=None, repr=False)

    @property
    def domains(self) -> list[str]:
        """The domains of the tree."""
        return sorted(self.tree.domains) if self.tree else []

    def having(self, adapters: str) -> list[str]:
        """The systems with these adapters."""
        return [name for name, each in self.systems.items() if each == adapters]

    def rows_in_domain(self) -> Rows:
        """What is compared on the domains of the tree."""
        return {self.base: (self.base, NONE), **{name: (name, OWN) for name in self.systems}}

    def rows_unseen(self) -> Rows:
        """What is compared on unseen domains."""
        rows = {self.base: (self.base, NONE)}
        rows |= {f"{name}: mean": (name, MEAN_PATH) for name in self.having(SINGLE)}
        rows |= {name: (name, ALL) for name in self.having(MULTI)}
        for name in self.having(TREE):
            rows |= {f"{name}: {_paths(count)}": (name, chosen(count)) for count in self.num_paths}
            rows[f"{name}: all paths"] = (name, ALL)
        return rows

    def rows_by_sequence(self, num_tokens: int, *, is_unseen: bool) -> Rows:
        """The tree with the same paths for a whole domain, and with paths that every block chooses for itself."""
        rows = {}
        for name in self.having(TREE):
            fixed = {f"{name}: {_paths(count)}": (name, chosen(count)) for count in self.num_paths}
            rows |= fixed if is_unseen else {f"{name}: own path": (name, OWN)}
            for count in self.num_paths:
                rows[f"{name}: {_paths(count)} by block"] = (name, by_sequence(count, num_tokens))
        return rows


def report(experiment: Hierarchy) -> Step:
    """The step that writes the report."""
    sources = records_files(perplexity_steps(experiment))
    for name in experiment.tree:
        tree = experiment.tree_file(name)
        paths = paths_dir(experiment, name)
        sources += [tree, tree.parent / RECORD_FILE, paths / PATHS_FILE, paths / VOTES_FILE]
    sources += training_files(experiment)

    def make() -> tuple[Page, Records]:
        records = all_records(experiment)
        return page(records, setups_of(experiment), experiment.work_dir.name, experiment.compare), records

    return report_step(experiment, sources, _VERSION, make)


def setups_of(experiment: Hierarchy) -> list[Setup]:
    """The trees of an experiment that systems are on, in the order of the file."""
    return [_setup(experiment, name) for name in experiment.tree if _on_tree(experiment, name)]


def _on_tree(experiment: Hierarchy, tree: str) -> dict[str, str]:
    """The systems on a tree, with their adapters."""
    return {name: str(system.adapters) for name, system in experiment.systems.items() if system.tree == tree}


def _setup(experiment: Hierarchy, tree: str) -> Setup:
    systems, evaluate = _on_tree(experiment, tree), experiment.evaluate
    starts = [experiment.systems[name].start for name in systems]
    path, is_induced = experiment.tree_file(tree), tree in experiment.induced_trees
    clusters = path.parent / RECORD_FILE
    return Setup(
        tree,
        is_induced,
        next((start for start in starts if start and start not in systems), ""),
        systems,
        [name for name in systems if name in evaluate.every_path or systems[name] == SINGLE],
        evaluate.num_paths,
        evaluate.choose_tokens if is_induced else (),
        read_tree(path) if path.is_file() else None,
        read_json(clusters, "induce the tree again") if is_induced and clusters.is_file() else None,
    )


def page(
    records: Records, setups: Sequence[Setup], name: str, compare: Mapping[str, Sequence[str]] | None = None
) -> Page:
    """The report of records.

    Args:
        records: everything that was measured.
        setups: the trees.
        name: of the experiment.
        compare: baselines by system; by default all systems are compared with what they start from, and trees with
            the other adapters.
    """
    unseen = records.domains(loss(ALL))
    sections: Sections = {
        "Cost": [costs(records, setups)],
        **{f"Tree: {setup.name}": _blocks(records, setup, unseen) for setup in setups},
        "Tuning": tuning_tables(records),
    }
    measured = len({record.system for record in records if record.metric.startswith(loss(""))})
    summary = f"Hierarchical adapters: perplexity of {measured} systems, {len(unseen)} unseen domains."
    comparisons = [each for setup in setups for each in _comparisons(records, setup, unseen, compare)]
    return Page(name, summary, sections, list(dict.fromkeys(comparisons)))


def _blocks(records: Records, setup: Setup, unseen: Sequence[str]) -> list[Table | Plot]:
    """What is shown of a tree."""
    in_domain, out_of_domain = (7, 5) if setup.is_induced else (2, 3)
    return [
        *tree_figure(setup),
        *clusters_figure(setup),
        perplexities(
            records, f"Table {in_domain}. Perplexity in domain: {setup.name}", setup.rows_in_domain(), setup.domains
        ),
        *changes(records, setup, setup.rows_in_domain(), setup.domains, "in domain"),
        perplexities(
            records, f"Table {out_of_domain}. Perplexity on unseen domains: {setup.name}", setup.rows_unseen(), unseen
        ),
        *changes(records, setup, setup.rows_unseen(), unseen, "on unseen domains"),
        *(every_path(records, setup, name, unseen) for name in setup.every_path),
        *(chosen_paths(records, setup, name) for name in setup.having(TREE)[: 1 if setup.is_induced else None]),
        *(table for count in setup.choose_tokens for table in by_first_tokens(records, setup, unseen, count)),
    ]


# Tables


def perplexity(
    records: Records, system: str, routing: str, domains: Sequence[str], unit: str = TOKEN
) -> dict[str, float]:
    """By run, the perplexity of the mean loss over domains; runs that were not measured on all of them are left out."""
    losses = records.by_run(system, loss(routing, unit), *domains) if domains else {}
    return {run: math.exp(value) for run, value in losses.items()}


def perplexities(
    records: Records, title: str, rows: Rows, domains: Sequence[str], unit: str = TOKEN, note: str = ""
) -> Table:
    """Systems by domain, and their average."""

    def mean(domains: Sequence[str], row: str) -> Mean | None:
        return Mean.of(perplexity(records, *rows[row], domains, unit).values())

    columns = [Column(domain, partial(mean, [domain]), best=min) for domain in domains]
    columns.append(Column(_AVERAGE, partial(mean, domains), best=min))
    found = [row for row in rows if any(column.of(row) for column in columns)]
    return Table(title, "Domain", found, columns, [*([note] if note else []), _AVERAGES], across=True)


def costs(records: Records, setups: Sequence[Setup]) -> Table:
    """Table 1."""
    systems = [name for setup in setups for name in setup.systems if records.mean(name, "added")]
    headings = {
        "Adapter size": ("bottleneck_dim", ",.0f"),
        "Adapters": ("num_adapters", ",.0f"),
        "Mean path": ("mean_path_length", ".1f"),
        "Base model": ("base", ",.0f"),
        "Added": ("added", ",.0f"),
        "Active": ("active", ",.0f"),
        "FLOPs": (FLOPS, "+.0%"),
        "Updates: root": ("updates", ",.0f"),
        "Updates: leaf": ("leaf_updates", ",.0f"),
    }
    columns = [Column(heading, partial(_value, records, metric), form) for heading, (metric, form) in headings.items()]
    notes = [
        "Base model, added and active are parameters. Active are the adapters on a path of mean length, and the layer "
        "norms that all share. FLOPs per token are relative to the base model's 2N, N without embeddings. A leaf's "
        "updates are counted as the mean leaf's share of the text; batches that mix domains update more leaves."
    ]
    return Table("Table 1. Parameters and training of the adapters", "System", systems, columns, notes)


def _value(records: Records, metric: str, system: str) -> float | None:
    mean = records.mean(system, metric)
    return mean.value if mean else None


def every_path(records: Records, setup: Setup, system: str, unseen: Sequence[str]) -> Table:
    """Table 4 (a tree) or 6 (single adapters): every path, and all paths below each inner node."""
    start = loss("")
    routings = [record.metric.removeprefix(start) for record in records if record.system == system]
    shown = (PATH, BELOW, BEST_PATH, MEAN_PATH)
    rows = {_label(routing): (system, routing) for routing in routings if routing.startswith(shown)}
    number = "6. Single adapters" if setup.systems[system] == SINGLE else "4. Different paths"
    title, note = f"Table {number} on unseen domains: {system}", "The best path is that of each test set."
    table = perplexities(records, title, rows, unseen, note=note)
    columns = [Column(column.heading, column.of) for column in table.columns]  # no path competes
    return Table(title, "Path", table.rows, columns, table.notes)


def _label(routing: str) -> str:
    return routing.removeprefix(PATH).replace(BELOW, "all below ")


def chosen_paths(records: Records, setup: Setup, system: str) -> Table:
    """Table 9: the leaves chosen for each unseen domain, the domains they were trained on, and their support.

    The support is the share of votes for a leaf of an induced tree, and the perplexity over the leaf's path otherwise.
    """
    name, metric = (setup.name, VOTES) if setup.is_induced else (system, CHOOSING_LOSS)
    choices = _choices(records, name, f"{metric}, ")
    trained = _domains_by_leaf(setup.tree)

    def leaf(rank: int, domain: str) -> str | None:
        record = _get(choices[domain], rank)
        return f"{_leaf_of(record)} ({_support(record)})" if record else None

    def domains(rank: int, domain: str) -> str | None:
        record = _get(choices[domain], rank)
        return ", ".join(trained.get(_leaf_of(record), [])) if record else None

    columns = []
    for rank in range(max(setup.num_paths, default=0)):
        columns.append(Column(f"Path {rank + 1}", partial(leaf, rank)))
        columns.append(Column("trained on", partial(domains, rank)))
    counts = sorted({record.n or 0 for each in choices.values() for record in each})
    what = "share of the votes of" if setup.is_induced else "perplexity over that path of"
    notes = [f"In brackets: the {what} up to {max(counts, default=0):,} blocks. Of several runs, the first is shown."]
    return Table(f"Table 9. Chosen paths: {name}", "Unseen domain", list(choices), columns, notes)


def _choices(records: Records, system: str, start: str) -> dict[str, list[Record]]:
    """By unseen domain, the records of its leaves, best first, of the first run."""
    of_system = [record for record in records if record.system == system and record.metric.startswith(start)]
    choices: dict[str, list[Record]] = {}
    for record in of_system:
        if record.run == of_system[0].run:
            choices.setdefault(record.domain, []).append(record)
    return choices


def _get(choices: Sequence[Record], rank: int) -> Record | None:
    return choices[rank] if rank < len(choices) else None


def _leaf_of(record: Record) -> str:
    return record.metric.split(", ", 1)[1]


def _support(record: Record) -> str:
    if record.metric.startswith(VOTES):
        return f"{record.value / (record.n or 1):.0%}"
    return f"{math.exp(record.value):.2f}"


def _domains_by_leaf(tree: DomainTree | None) -> dict[str, list[str]]:
    domains: dict[str, list[str]] = {}
    for domain, row in sorted(tree.domains.items()) if tree else ():
        domains.setdefault(tree.names[row], []).append(domain)
    return domains


def by_first_tokens(records: Records, setup: Setup, unseen: Sequence[str], num_tokens: int) -> Iterable[Table]:
    """Paths that every block chooses for itself by its first tokens, in domain and on unseen domains."""
    unit, by = (after(num_tokens), f"the first {num_tokens} tokens") if num_tokens else (TOKEN, "all tokens")
    note = (
        f"Perplexity of what follows the first {num_tokens} tokens of each block."
        if num_tokens
        else "A block chooses by the text that is scored, so this is no fair comparison."
    )
    for is_unseen, domains in ((False, setup.domains), (True, unseen)):
        where = "on unseen domains" if is_unseen else "in domain"
        title = f"Paths by {by} of each block, {where}: {setup.name}"
        rows = setup.rows_by_sequence(num_tokens, is_unseen=is_unseen)
        yield perplexities(records, title, rows, domains, unit, note)


def _comparisons(
    records: Records, setup: Setup, unseen: Sequence[str], compare: Mapping[str, Sequence[str]] | None
) -> list[Comparison]:
    """Averages of perplexity over domains, of every row against its baselines."""
    found = []
    for rows, domains, where in (
        (setup.rows_in_domain(), setup.domains, f"in domain: {setup.name}"),
        (setup.rows_unseen(), unseen, _UNSEEN),
    ):
        averages = [
            Record(system=row, run=run, domain=where, metric=_PERPLEXITY, value=value)
            for row, scored in rows.items()
            for run, value in perplexity(records, *scored, domains).items()
        ]
        found += compare_systems(Records(averages), _pairs(setup, rows, compare), _PERPLEXITY, [where])
    return found


def _pairs(setup: Setup, rows: Rows, compare: Mapping[str, Sequence[str]] | None) -> dict[str, list[str]]:
    others = [*setup.having(SINGLE), *setup.having(MULTI)]
    default = {name: [setup.base, *(others if name in setup.having(TREE) else [])] for name in setup.systems}
    baselines = compare or default
    return {
        row: [other for other, (name, _) in rows.items() if name in baselines.get(system, ())]
        for row, (system, _) in rows.items()
    }


# Figures


def changes(records: Records, setup: Setup, rows: Rows, domains: Sequence[str], where: str) -> list[Plot]:
    """Figure 3: the change of perplexity against the base, in percent; none if nothing was measured."""
    base, *others = rows
    parts = {_AVERAGE: domains, **{domain: [domain] for domain in domains}}
    lines = {}
    for row in others:
        found = {name: _change(records, rows[base], rows[row], part) for name, part in parts.items()}
        if line := {name: change for name, change in found.items() if change is not None}:
            lines[row] = line
    if not lines:
        return []
    title = f"Figure 3. Change of perplexity {where}: {setup.name}"
    label = f"change of perplexity against {setup.base}, in percent"
    draw = partial(_draw_dots, lines, list(parts), label)
    name = f"changes-{setup.name}-{'-'.join(where.split())}"
    return [Plot(name, title, draw_figure(8, 1.6 + 0.28 * len(parts), draw), "Further left is better.")]


def _change(records: Records, base: tuple[str, str], other: tuple[str, str], domains: Sequence[str]) -> float | None:
    before, later = (Mean.of(perplexity(records, *scored, domains).values()) for scored in (base, other))
    return 100 * (later.value / before.value - 1) if before and later else None


def _draw_dots(lines: Mapping[str, Mapping[str, float]], rows: Sequence[str], label: str, axes: Axes) -> None:
    for number, (name, line) in enumerate(lines.items()):
        places = [rows.index(row) for row in line]
        colour = COLOURS[number % len(COLOURS)]
        axes.plot(list(line.values()), places, "o", color=colour, markersize=5, alpha=0.8, label=name)
    axes.axvline(0, color=GREY, linewidth=0.8)
    axes.axhline(0.5, color=GREY, linewidth=0.5, linestyle=":")  # below the average
    axes.set_yticks(range(len(rows)), rows)
    axes.set_ylim(len(rows) - 0.5, -0.5)
    axes.set_xlabel(label)
    axes.legend(fontsize=8, loc="center left", bbox_to_anchor=(1, 0.5))


def tree_figure(setup: Setup) -> list[Plot]:
    """Figure 1 (drawn by hand) or 2 (induced); none before the tree is there."""
    tree = setup.tree
    if tree is None:
        return []
    title = f"Figure {2 if setup.is_induced else 1}. The tree {setup.name}"
    note = (
        f"{len(tree.names)} nodes, {len(tree.leaves)} leaves; a domain's path has {tree.mean_path_length:.1f} nodes on "
        "average."
    )
    svg = draw_figure(8, 0.6 + 0.25 * len(tree.leaves), partial(_draw_tree, tree))
    return [Plot(f"tree-{setup.name}", title, svg, note)]


def _draw_tree(tree: DomainTree, axes: Axes) -> None:
    """The root at the left, leaves at the right."""
    places = _places(tree)
    domains = _domains_by_leaf(tree)
    for row, (x, y) in places.items():
        name, children = tree.names[row], tree.children[row]
        for child in children:
            to_x, to_y = places[child]
            axes.plot([x, x, to_x], [y, to_y, to_y], color=GREY, linewidth=1)
        own = domains.get(name, [])
        label = name if own in ([], [name]) else f"{name}: {', '.join(own)}"
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


def clusters_figure(setup: Setup) -> list[Plot]:
    """Figure 4: which clusters the blocks of every domain belong to; none for a tree drawn by hand."""
    if setup.tree is None or setup.clusters is None:
        return []
    # Loads numpy.
    from fairseq_ext.induction.pictures import draw_domains_by_cluster

    svg = draw_domains_by_cluster(setup.tree, setup.clusters)
    note = "In percent of each domain's blocks, in the order of the tree. Clusters that win no domain are dropped."
    return [Plot(f"clusters-{setup.name}", f"Figure 4. Domains by cluster: {setup.name}", svg, note)]


def _paths(count: int) -> str:
    return "1 path" if count == 1 else f"{count} paths"
