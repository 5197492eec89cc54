"""The tables of a language model report, numbered as in the paper on hierarchical adapters (docs/language-models.md).

Averages over domains are perplexities of mean losses, as in the paper's Table 2; its others average perplexities.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from fairseq_ext.domains.domain_tree import DomainTree
from fairseq_ext.experiments.hierarchy.results import (
    PATHS_FILE,
    PERPLEXITY_FILE,
    VOTES_FILE,
    LmDesign,
    LmResults,
    Setup,
    geometric_mean,
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
    NOT_MEASURED,
    SPREAD,
    Figure,
    Measured,
    figure_rows,
    figure_table,
    of_entry,
    table_of_rows,
    transposed,
)
from fairseq_ext.report.records import over_runs

Shown = Table | Missing
# Loss of a run on a domain, by a unit; None if it was not measured.
Measure = Callable[[LmResults, str, str, str], float | None]
AVERAGE = "average"
_WIDEST = 9  # columns; wider tables are turned round
_AVERAGES = "The average is the perplexity of the mean loss."


@dataclass(frozen=True)
class Column:
    """A system, and over which adapters it scores.

    Attributes:
        heading: of the column.
        system: whose runs are averaged.
        measure: the loss.
        competes: whether it may be the best: not if it is chosen by the test set.
    """

    heading: str
    system: str
    measure: Measure
    competes: bool = True


def in_domain_columns(setup: Setup, design: LmDesign) -> list[Column]:
    """What is compared on the domains of a tree: every system with the domain's own path, and with chosen ones."""
    columns = [Column(setup.base, setup.base, _routed(NONE))]
    columns += [Column(name, name, _routed(OWN)) for name in setup.systems]
    return columns + _sequence_columns(setup, design)


def unseen_columns(setup: Setup, design: LmDesign) -> list[Column]:
    """What is compared on unseen domains."""
    columns = [Column(setup.base, setup.base, _routed(NONE))]
    for name in setup.of_kind("single"):
        columns.append(Column(f"{name}: best", name, _best_path, competes=False))
        columns.append(Column(f"{name}: mean", name, _mean_path))
    columns += [Column(name, name, _routed(ALL)) for name in setup.of_kind("multi")]
    for name in setup.of_kind("tree"):
        columns += [
            Column(f"{name}: {_paths(number)}", name, _routed(chosen_routing(number))) for number in design.num_paths
        ]
        columns.append(Column(f"{name}: all paths", name, _routed(ALL)))
    return columns + _sequence_columns(setup, design)


def costs(results: LmResults, design: LmDesign) -> Shown:
    """Table 1."""
    title = "Table 1. Parameters and training of the adapters"
    known = {run: record["cost"] for run, record in results.perplexity.items()}
    entries = {name: known[runs[0]] for name, runs in design.runs.items() if runs and runs[0] in known}
    groups = [
        (f"{_kind(setup)}: {setup.tree}", [name for name in setup.systems if name in entries])
        for setup in design.setups
    ]
    if not any(names for _, names in groups):
        return Missing(title, "not available: no system has been measured")
    bases = {name: design.runs.get(name, [""])[0] for name in dict.fromkeys(setup.base for setup in design.setups)}
    notes = [
        f"{name} itself has {known[run]['base']:,} parameters and takes {_short(known[run]['base_flops'])} FLOPs a "
        "token (2N, N without embeddings)."
        for name, run in bases.items()
        if run in known
    ]
    notes.append(
        "Active are the adapters on a path of mean length, and the layer norms that all share. Batches mix domains: a "
        "leaf’s updates are counted as its share of the text, for the mean leaf."
    )
    columns = [
        Figure("Adapter size", of_entry(entries, "bottleneck_dim"), ","),
        Figure("Adapters", of_entry(entries, "num_adapters"), ","),
        Figure("Mean path", of_entry(entries, "mean_path_length"), ".1f"),
        Figure("Added", of_entry(entries, "added"), ","),
        Figure("Active", of_entry(entries, "active"), ","),
        Figure("FLOPs", lambda name: Measured(entries[name]["added_flops"] / entries[name]["base_flops"]), "+.0%"),
        Figure("Updates: root", of_entry(entries, "updates"), ","),
        Figure("Updates: leaf", of_entry(entries, "leaf_updates"), ","),
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
    columns = [Column(leaf, system, _routed(path_routing(leaf))) for leaf in record.get("leaves", [])]
    columns += [
        Column(f"{node}: {len(leaves)} paths", system, _routed(family_routing(node)))
        for node, leaves in record.get("families", {}).items()
    ]
    return _perplexities(results, design, title, columns, results.unseen, [_AVERAGES])


def by_first_tokens(results: LmResults, design: LmDesign, setup: Setup, num_tokens: int) -> Shown:
    """What a choice of paths from the first tokens of every sequence is worth, by the tokens that follow."""
    title = f"Choice by the first {num_tokens} tokens of every sequence: {setup.tree}"
    unit = f"after:{num_tokens}"
    columns = [Column(setup.base, setup.base, _routed(NONE))]
    columns += [Column(name, name, _first_of(OWN, ALL)) for name in setup.of_kind("multi")]
    for name in setup.of_kind("tree"):
        columns.append(Column(f"{name}: told, or {_paths(1)} chosen", name, _first_of(OWN, chosen_routing(1))))
        columns += [
            Column(f"{name}: {_paths(k)} by sequence", name, _routed(sequence_routing(k, num_tokens)))
            for k in design.num_paths
        ]
    columns = [replace(column, measure=_in_unit(column.measure, unit)) for column in columns]
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
            Figure(heading, _average(results, design, *part, unit="words"))
            for heading, part in zip(headings, parts, strict=True)
        ]
        names = dict.fromkeys(column.heading for columns, _ in parts for column in columns)
        groups.append((f"{_kind(setup)}: {setup.tree}", figure_rows(figures, list(names))))
    notes = ["Words are what blanks part; the ends of lines are predicted, but are no words.", _AVERAGES]
    return table_of_rows(title, "System", headings, groups, Below(notes, [PERPLEXITY_FILE.format("*")]))


def domains_of_setup(results: LmResults, setup: Setup) -> list[str]:
    """The domains of a tree, once something is known of it."""
    tree = results.trees.get(setup.tree)
    return sorted(tree.domains) if tree else []


def perplexities(results: LmResults, design: LmDesign, column: Column, domain: str) -> list[float]:
    """A column's figure for a domain, one a run."""
    losses = [column.measure(results, run, domain, "tokens") for run in design.runs.get(column.system, [])]
    return [math.exp(loss) for loss in losses if loss is not None]


def average_perplexities(
    results: LmResults, design: LmDesign, column: Column, domains: Sequence[str], unit: str = "tokens"
) -> list[float]:
    """A column's average over domains, one a run that measured all of them."""
    averages = []
    for run in design.runs.get(column.system, []):
        losses = [column.measure(results, run, domain, unit) for domain in domains]
        if losses and None not in losses:
            averages.append(geometric_mean(loss for loss in losses if loss is not None))
    return averages


def _perplexities(
    results: LmResults,
    design: LmDesign,
    title: str,
    columns: Sequence[Column],
    domains: Sequence[str],
    notes: Sequence[str],
) -> Shown:
    """Domains by columns; columns that nobody measured are left out."""
    columns = [c for c in columns if any(perplexities(results, design, c, domain) for domain in domains)]
    if not columns:
        return Missing(title, NOT_MEASURED)
    parts = {**{domain: [domain] for domain in domains}, AVERAGE: domains}
    figures = [Figure(name, _average(results, design, columns, part), best=min) for name, part in parts.items()]
    rows = figure_rows(figures, [c.heading for c in columns], [c.heading for c in columns if c.competes])
    is_turned = len(columns) > _WIDEST
    if sum(column.competes for column in columns) > 1:
        notes = [*notes, f"Bold is the best of a {'column' if is_turned else 'row'}."]
    notes = [*notes, SPREAD]
    runs = dict.fromkeys(run for column in columns for run in design.runs[column.system])
    files = [PERPLEXITY_FILE.format(run) for run in runs if run in results.perplexity]
    below = Below(notes, files)
    headings = [figure.heading for figure in figures]
    if is_turned:
        return table_of_rows(title, "", headings, [("", rows)], below)
    *by_domain, average = transposed(rows, headings)
    groups = [("", by_domain), ("", [average])]
    return table_of_rows(title, "Domain", [c.heading for c in columns], groups, below)


def _average(
    results: LmResults, design: LmDesign, columns: Sequence[Column], domains: Sequence[str], unit: str = "tokens"
) -> Callable[[str], Measured | None]:
    """The average of every column over domains, by its heading; None for columns that are not among these."""
    named = {column.heading: column for column in columns}
    return lambda heading: (
        over_runs(average_perplexities(results, design, named[heading], domains, unit)) if heading in named else None
    )


def _routed(routing: str) -> Measure:
    return lambda results, run, domain, unit: results.loss(run, domain, routing, unit)


def _first_of(*routings: str) -> Measure:
    """The first of these routings that was measured."""

    def measure(results: LmResults, run: str, domain: str, unit: str) -> float | None:
        losses = (results.loss(run, domain, routing, unit) for routing in routings)
        return next((loss for loss in losses if loss is not None), None)

    return measure


def _in_unit(measure: Measure, unit: str) -> Measure:
    return lambda results, run, domain, _: measure(results, run, domain, unit)


def _path_losses(results: LmResults, run: str, domain: str, unit: str) -> list[float]:
    leaves = results.perplexity.get(run, {}).get("leaves", [])
    losses = [results.loss(run, domain, path_routing(leaf), unit) for leaf in leaves]
    return [loss for loss in losses if loss is not None]


def _best_path(results: LmResults, run: str, domain: str, unit: str) -> float | None:
    return min(_path_losses(results, run, domain, unit), default=None)


def _mean_path(results: LmResults, run: str, domain: str, unit: str) -> float | None:
    losses = _path_losses(results, run, domain, unit)
    return statistics.fmean(losses) if losses else None


def _sequence_columns(setup: Setup, design: LmDesign) -> list[Column]:
    """Paths that every sequence chooses for itself: by the very text that is scored, so they do not compete."""
    if not setup.is_induced or 0 not in design.choose_tokens:
        return []
    return [
        Column(f"{name}: {_paths(k)} by sequence", name, _routed(sequence_routing(k, 0)), competes=False)
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
    paths: Mapping[str, Sequence[str]],
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
        for leaf in leaves[:most]:
            cells.append(Cell(f"{leaf} ({support[domain].get(leaf, '–')})"))
            cells.append(Cell(", ".join(trained.get(leaf, []))))
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
