"""The tables of a language model report, numbered as in the paper on hierarchical adapters (docs/language-models.md).

Averages over domains are perplexities of mean losses, as in the paper's Table 2; its others average perplexities.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from fairseq_ext.domains.domain_tree import DomainTree
from fairseq_ext.experiments.hierarchy.results import (
    BEST_PATH,
    FLOPS,
    MEAN_PATH,
    OWN_OR_CHOSEN,
    PATHS_FILE,
    PERPLEXITY_FILE,
    TOKEN,
    VOTES_FILE,
    WORD,
    LmDesign,
    LmResults,
    Setup,
    behind,
    loss,
)
from fairseq_ext.experiments.hierarchy.routings import (
    ALL,
    NONE,
    OWN,
    chosen_routing,
    family_routing,
    path_routing,
    sequence_routing,
)
from fairseq_ext.report.content import Below, Cell, Missing, Row, Table
from fairseq_ext.report.figures import (
    BEST,
    BEST_OF_ROW,
    NOT_MEASURED,
    SPREAD,
    Figure,
    figure_rows,
    figure_table,
    table_of_rows,
    transposed,
)
from fairseq_ext.report.records import Measured, over_runs

Shown = Table | Missing
AVERAGE = "average"
_WIDEST = 9  # columns; wider tables are turned round
_AVERAGES = "The average is the perplexity of the mean loss."


@dataclass(frozen=True)
class Column:
    """A system, and over which adapters it scores.

    Attributes:
        heading: of the column.
        system: whose runs are averaged.
        routing: over which adapters; those of :mod:`~fairseq_ext.experiments.hierarchy.results` are among them.
        competes: whether it may be the best: not if it is chosen by the test set.
        unit: that perplexity is by.
    """

    heading: str
    system: str
    routing: str
    competes: bool = True
    unit: str = TOKEN

    def by_run(self, results: LmResults, *domains: str) -> list[float]:
        """The perplexity of the mean loss over some domains, one a run that was measured on all of them."""
        losses = results.records.by_run(self.system, loss(self.routing, self.unit), *domains)
        return [math.exp(value) for value in losses.values()]

    def figure(self, results: LmResults, *domains: str) -> Measured | None:
        """The same over runs; None if nothing was measured."""
        return over_runs(self.by_run(results, *domains))


def in_domain_columns(setup: Setup, design: LmDesign) -> list[Column]:
    """What is compared on the domains of a tree: every system with the domain's own path, and with chosen ones."""
    columns = [Column(setup.base, setup.base, NONE)]
    columns += [Column(name, name, OWN) for name in setup.systems]
    return columns + _sequence_columns(setup, design)


def unseen_columns(setup: Setup, design: LmDesign) -> list[Column]:
    """What is compared on unseen domains."""
    columns = [Column(setup.base, setup.base, NONE)]
    for name in setup.of_kind("single"):
        columns.append(Column(f"{name}: best", name, BEST_PATH, competes=False))
        columns.append(Column(f"{name}: mean", name, MEAN_PATH))
    columns += [Column(name, name, ALL) for name in setup.of_kind("multi")]
    for name in setup.of_kind("tree"):
        columns += [Column(f"{name}: {_paths(number)}", name, chosen_routing(number)) for number in design.num_paths]
        columns.append(Column(f"{name}: all paths", name, ALL))
    return columns + _sequence_columns(setup, design)


def costs(results: LmResults, design: LmDesign) -> Shown:
    """Table 1."""
    title = "Table 1. Parameters and training of the adapters"
    of, mean = partial(results.records.of_systems, spread=False), results.records.mean
    groups = [
        (f"{_kind(setup)}: {setup.tree}", [name for name in setup.systems if mean(name, "added") is not None])
        for setup in design.setups
    ]
    if not any(names for _, names in groups):
        return Missing(title, "not available: no system has been measured")
    notes = [
        f"{name} itself has {parameters:,.0f} parameters and takes {_short(mean(name, 'base_flops') or 0)} FLOPs a "
        "token (2N, N without embeddings)."
        for name in dict.fromkeys(setup.base for setup in design.setups)
        if (parameters := mean(name, "base")) is not None
    ]
    notes.append(
        "Active are the adapters on a path of mean length, and the layer norms that all share. A leaf’s updates are "
        "counted as its share of the text, for the mean leaf; where batches mix domains, it takes a small part in most."
    )
    columns = [
        Figure("Adapter size", of("bottleneck_dim"), ",.0f"),
        Figure("Adapters", of("num_adapters"), ",.0f"),
        Figure("Mean path", of("mean_path_length"), ".1f"),
        Figure("Added", of("added"), ",.0f"),
        Figure("Active", of("active"), ",.0f"),
        Figure("FLOPs", of(FLOPS), "+.0%"),
        Figure("Updates: root", of("updates"), ",.0f"),
        Figure("Updates: leaf", of("leaf_updates"), ",.0f"),
    ]
    return figure_table(title, "System", columns, groups, Below(notes, [PERPLEXITY_FILE.format("*")]))


def in_domain(results: LmResults, design: LmDesign, setup: Setup) -> Shown:
    """Table 2, or 7 for an induced tree."""
    title = f"Table {7 if setup.is_induced else 2}. Perplexity in domain: {setup.tree}"
    domains = domains_of_setup(results, setup)
    notes = [_AVERAGES, *_sequence_note(setup, design)]
    return _perplexities(results, design, title, in_domain_columns(setup, design), domains, notes)


def unseen(results: LmResults, design: LmDesign, setup: Setup) -> Shown:
    """Table 3, or 5 for an induced tree."""
    title = f"Table {5 if setup.is_induced else 3}. Perplexity on unseen domains: {setup.tree}"
    by = "votes of" if setup.is_induced else "perplexity on"
    notes = [_AVERAGES]
    if setup.of_kind("tree"):
        notes.append(f"Paths are chosen by the {by} up to {design.sequences:,} other sequences of the domain.")
    if setup.of_kind("single"):
        notes.append("The best single adapter is found on the test set itself and does not compete.")
    notes += _sequence_note(setup, design)
    return _perplexities(results, design, title, unseen_columns(setup, design), results.unseen, notes)


def every_path(results: LmResults, design: LmDesign, system: str) -> Shown:
    """Table 4 (a tree), or 6 (single adapters): unseen domains over each path, and over all below each inner node."""
    record = results.perplexity.get(design.runs[system][0], {})
    kind = "6. Single adapters on unseen domains" if record.get("adapters") == "single" else "4. Different paths"
    title = f"Table {kind}: {system}"
    columns = [Column(leaf, system, path_routing(leaf)) for leaf in record.get("leaves", [])]
    columns += [
        Column(f"{node}: {len(leaves)} paths", system, family_routing(node))
        for node, leaves in record.get("families", {}).items()
    ]
    return _perplexities(results, design, title, columns, results.unseen, [_AVERAGES])


def by_first_tokens(results: LmResults, design: LmDesign, setup: Setup, num_tokens: int) -> Shown:
    """What a choice of paths from the first tokens of every sequence is worth, by the tokens that follow."""
    title = f"Choice by the first {num_tokens} tokens of every sequence: {setup.tree}"
    columns = [Column(setup.base, setup.base, NONE)]
    columns += [Column(name, name, OWN_OR_CHOSEN) for name in setup.of_kind("multi")]
    for name in setup.of_kind("tree"):
        columns.append(Column(f"{name}: told, or {_paths(1)} chosen", name, OWN_OR_CHOSEN))
        columns += [
            Column(f"{name}: {_paths(k)} by sequence", name, sequence_routing(k, num_tokens)) for k in design.num_paths
        ]
    columns = [replace(column, unit=behind(num_tokens)) for column in columns]
    domains = [*domains_of_setup(results, setup), *results.unseen]
    notes = [
        f"Perplexity of what follows the first {num_tokens} tokens of each block, which say how to go on. The last "
        f"{len(results.unseen)} domains are unseen.",
        _AVERAGES,
    ]
    return _perplexities(results, design, title, columns, domains, notes)


def chosen_paths(results: LmResults, design: LmDesign, setup: Setup) -> list[Shown]:
    """Table 9: the leaves chosen for every unseen domain, the domains that they stand for, and what speaks for them."""
    tree = results.trees.get(setup.tree)
    if tree is None or not setup.of_kind("tree"):
        return []
    if setup.is_induced:
        title, files = f"Table 9. Chosen paths: {setup.tree}", [f.format(setup.tree) for f in (PATHS_FILE, VOTES_FILE)]
        paths, votes = results.paths.get(setup.tree), results.votes.get(setup.tree)
        if paths is None or votes is None:
            return [Missing(title, f"not available: there is no {files[0]}")]
        counts = sorted({sum(votes[domain].values()) for domain in paths})
        note = f"In brackets: the share of the {_range(counts)} sequences that vote for the leaf."
        support = {d: {leaf: f"{100 * n / sum(votes[d].values()):.0f}%" for leaf, n in votes[d].items()} for d in paths}
        return [_choices(title, tree, paths, support, design, Below([note], files))]
    tables: list[Shown] = []
    for run in (run for name in setup.of_kind("tree") for run in design.runs[name] if run in results.perplexity):
        record = results.perplexity[run]["choices"]
        support = {
            d: {leaf: f"{math.exp(loss):.2f}" for leaf, loss in found.items()} for d, found in record["losses"].items()
        }
        counts = sorted(set(record["sequences"].values()))
        note = f"In brackets: perplexity of {_range(counts)} sequences over that path alone."
        below = Below([note], [PERPLEXITY_FILE.format(run)])
        tables.append(_choices(f"Table 9. Chosen paths: {run}", tree, record["ranking"], support, design, below))
    return tables


def per_word(results: LmResults, design: LmDesign) -> Shown:
    """All averages once more by word, which can be compared across vocabularies."""
    title = "Perplexity per word, averaged over domains"
    groups, headings = [], ("In domain", "Unseen")
    for setup in design.setups:
        parts = [(in_domain_columns(setup, design), domains_of_setup(results, setup))]
        parts.append((unseen_columns(setup, design), results.unseen))
        figures = [
            Figure(heading, _average(results, [replace(column, unit=WORD) for column in columns], domains))
            for heading, (columns, domains) in zip(headings, parts, strict=True)
        ]
        names = dict.fromkeys(column.heading for columns, _ in parts for column in columns)
        groups.append((f"{_kind(setup)}: {setup.tree}", figure_rows(figures, list(names))))
    notes = ["Words are what blanks part; the ends of lines are predicted, but are no words.", _AVERAGES]
    return table_of_rows(title, "System", headings, groups, Below(notes, [PERPLEXITY_FILE.format("*")]))


def domains_of_setup(results: LmResults, setup: Setup) -> list[str]:
    """The domains of a tree, once something is known of it."""
    tree = results.trees.get(setup.tree)
    return sorted(tree.domains) if tree else []


def _perplexities(
    results: LmResults,
    design: LmDesign,
    title: str,
    columns: Sequence[Column],
    domains: Sequence[str],
    notes: Sequence[str],
) -> Shown:
    """Domains by columns; columns that nobody measured are left out."""
    columns = [c for c in columns if any(c.figure(results, domain) for domain in domains)]
    if not columns:
        return Missing(title, NOT_MEASURED)
    parts = {**{domain: [domain] for domain in domains}, AVERAGE: domains}
    figures = [Figure(name, _average(results, columns, part), best=min) for name, part in parts.items()]
    rows = figure_rows(figures, [c.heading for c in columns], [c.heading for c in columns if c.competes])
    is_turned = len(columns) > _WIDEST
    notes = [*notes, BEST if is_turned else BEST_OF_ROW, SPREAD]
    runs = dict.fromkeys(run for column in columns for run in design.runs[column.system])
    files = [PERPLEXITY_FILE.format(run) for run in runs if run in results.perplexity]
    below = Below(notes, files)
    headings = [figure.heading for figure in figures]
    if is_turned:
        return table_of_rows(title, "", headings, [("", rows)], below)
    *by_domain, average = transposed(rows, headings)
    groups = [("", by_domain), ("", [average])]
    return table_of_rows(title, "Domain", [c.heading for c in columns], groups, below)


def _average(results: LmResults, columns: Sequence[Column], domains: Sequence[str]) -> Callable[[str], Measured | None]:
    """The average of every column over domains, by its heading; None for columns that are not among these."""
    named = {column.heading: column for column in columns}
    return lambda heading: named[heading].figure(results, *domains) if heading in named else None


def _sequence_columns(setup: Setup, design: LmDesign) -> list[Column]:
    """Paths that every sequence chooses for itself: by the very text that is scored, so they do not compete."""
    if not setup.is_induced or 0 not in design.choose_tokens:
        return []
    return [
        Column(f"{name}: {_paths(k)} by sequence", name, sequence_routing(k, 0), competes=False)
        for name in setup.of_kind("tree")
        for k in design.num_paths
    ]


def _sequence_note(setup: Setup, design: LmDesign) -> list[str]:
    if not _sequence_columns(setup, design):
        return []
    return ["By sequence: every block chooses its paths by all its text, the text that is scored; it does not compete."]


def _choices(
    title: str,
    tree: DomainTree,
    paths: Mapping[str, Iterable[str]],
    support: Mapping[str, Mapping[str, str]],
    design: LmDesign,
    below: Below,
) -> Shown:
    if not paths:
        return Missing(title, "there are no unseen domains")
    trained = {leaf: [d for d, row in tree.domains.items() if tree.names[row] == leaf] for leaf in tree.leaves}
    most = min(max(design.num_paths), len(tree.leaves))
    rows = []
    for domain, leaves in paths.items():
        cells = []
        for leaf in list(leaves)[:most]:
            cells.append(Cell(f"{leaf} ({support[domain].get(leaf, '–')})"))
            cells.append(Cell(", ".join(trained.get(leaf, []))))
        cells += [Cell("–")] * (2 * most - len(cells))  # no other leaf has a vote
        rows.append(Row(domain, cells))
    columns = [heading for k in range(1, most + 1) for heading in (f"Path {k}", "trained on")]
    return Table(title, "Unseen domain", columns, [("", rows)], is_text=True, below=below)


def _range(counts: Sequence[int]) -> str:
    return f"{counts[0]:,}" if len(counts) == 1 else f"{counts[0]:,} to {counts[-1]:,}" if counts else "0"


def _paths(number: int) -> str:
    return "1 path" if number == 1 else f"{number} paths"


def _kind(setup: Setup) -> str:
    return "Induced tree" if setup.is_induced else "Tree drawn by hand"


def _short(number: float) -> str:
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if number >= size:
            return f"{number / size:.3g} {letter}"
    return f"{number:g}"
