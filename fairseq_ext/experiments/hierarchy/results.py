"""What an experiment with language models has measured, read from its folder, and what its file says of its systems."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from fairseq_ext.domains.domain_tree import DomainTree, read_tree
from fairseq_ext.experiments.hierarchy.config import HierarchyExperiment
from fairseq_ext.experiments.hierarchy.routings import ALL, OWN, chosen_routing, path_routing
from fairseq_ext.report.records import Record, Records, results_by_name

# Relative to the experiment's folder; the first is by run, the others by tree.
PERPLEXITY_FILE = "perplexity/{}/perplexity.json"
PATHS_FILE = "paths/{}/paths.json"
VOTES_FILE = "paths/{}/votes.json"
CLUSTERS_FILE = "trees/{}/clusters.json"

TOKEN, WORD = "token", "word"
FLOPS = "added_flops of base_flops"
# Routings that are made of others: of all paths, and what a domain of the tree is told or another chooses.
BEST_PATH, MEAN_PATH, OWN_OR_CHOSEN = "best path", "mean path", "own or chosen"


@dataclass(frozen=True)
class Setup:
    """A tree, and the systems that are compared over its domains.

    Attributes:
        tree: its name.
        is_induced: whether it was made from the text.
        base: the system that the others start from.
        systems: by name, which adapters they have; in the order of the file.
    """

    tree: str
    is_induced: bool
    base: str
    systems: Mapping[str, str]

    def of_kind(self, adapters: str) -> list[str]:
        """The systems with these adapters."""
        return [name for name, kind in self.systems.items() if kind == adapters]


@dataclass(frozen=True)
class LmDesign:
    """What the experiment file says.

    Attributes:
        name: the experiment's, which is its folder's.
        setups: one a tree, in the order of the file.
        runs: of each system.
        num_paths: how many paths were chosen.
        choose_tokens: from how many tokens sequences chose.
        every_path: systems of which every path was measured.
        sequences: by which paths were chosen.
    """

    name: str
    setups: Sequence[Setup]
    runs: Mapping[str, Sequence[str]]
    num_paths: Sequence[int] = (1, 2)
    choose_tokens: Sequence[int] = (0,)
    every_path: Sequence[str] = ()
    sequences: int = 1000

    @classmethod
    def of(cls, experiment: HierarchyExperiment) -> LmDesign:
        """What of an experiment the report shows."""
        models, evaluation = experiment.systems, experiment.evaluate
        setups = []
        for tree in experiment.trees.values():
            systems = {name: model for name, model in models.items() if model.tree == tree.name}
            starts = [model.system.start for model in systems.values() if model.system.start not in systems]
            if systems:
                kinds = {name: str(model.adapters) for name, model in systems.items()}
                setups.append(Setup(tree.name, tree.is_induced, starts[0] or "", kinds))
        return cls(
            name=experiment.work_dir.name,
            setups=setups,
            runs={name: [run.name for run in runs] for name, runs in experiment.runs.items()},
            num_paths=evaluation.num_paths,
            choose_tokens=evaluation.choose_tokens,
            every_path=evaluation.every_path,
            sequences=evaluation.sequences,
        )


@dataclass(frozen=True)
class LmResults:
    """What the steps of an experiment have measured; what has not been made is missing.

    Attributes:
        records: losses by domain, and of systems what their adapters cost.
        perplexity: by run; see :mod:`fairseq_ext.experiments.hierarchy.evaluate`.
        trees: by name.
        paths: by tree, the leaves chosen for each unseen domain.
        votes: by tree, how many of its sequences voted for each leaf.
        clusters: by tree, how it was induced.
    """

    records: Records = Records()
    perplexity: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    trees: Mapping[str, DomainTree] = field(default_factory=dict)
    paths: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    votes: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    clusters: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    @property
    def unseen(self) -> list[str]:
        """The unseen domains."""
        return next((list(record["unseen"]) for record in self.perplexity.values()), [])


def loss(routing: str, unit: str = TOKEN) -> str:
    """What a mean negative log-likelihood is called.

    Args:
        routing: over which adapters.
        unit: that the mean is over, :data:`TOKEN`, :data:`WORD` or :func:`behind`.
    """
    return f"nats a {unit}, {routing}"


def behind(num_tokens: int | str) -> str:
    """A token behind the first so many of each block."""
    return f"token behind {num_tokens}"


def read_results(experiment: HierarchyExperiment) -> LmResults:
    """Read whatever records there are.

    Raises:
        InputError: if one of them cannot be read.
    """
    work_dir, trees = experiment.work_dir, experiment.trees
    systems = {run.name: run.system.name for run in experiment.all_runs}
    perplexity = results_by_name(work_dir, PERPLEXITY_FILE, systems)
    return LmResults(
        Records([record for run, found in perplexity.items() for record in records_of_run(systems[run], run, found)]),
        perplexity,
        trees={name: read_tree(tree.path) for name, tree in trees.items() if tree.path.is_file()},
        paths=results_by_name(work_dir, PATHS_FILE, trees),
        votes=results_by_name(work_dir, VOTES_FILE, trees),
        clusters=results_by_name(work_dir, CLUSTERS_FILE, trees),
    )


def result_files(experiment: HierarchyExperiment) -> list[Path]:
    """Where all records would be."""
    trees, runs = experiment.trees, [run.name for run in experiment.all_runs]
    names = [PERPLEXITY_FILE.format(run) for run in runs]
    names += [pattern.format(name) for name in trees for pattern in (PATHS_FILE, VOTES_FILE, CLUSTERS_FILE)]
    return [experiment.work_dir / name for name in names] + [tree.path for tree in trees.values()]


def records_of_run(system: str, run: str, found: Mapping[str, Any]) -> Iterator[Record]:
    """The values of a run's ``perplexity.json``."""
    record, cost = partial(Record, system, run, source=PERPLEXITY_FILE.format(run)), found["cost"]
    for metric, value in cost.items():
        yield record("", metric, value=value)
    if "added_flops" in cost:
        yield record("", FLOPS, value=cost["added_flops"] / cost["base_flops"])
    for domain, nats in found["nats"].items():
        counts, after = found["sets"][domain], found["nats_after"][domain]
        units = {TOKEN: (nats, counts["tokens"]), WORD: (nats, counts["words"])}
        for start, count in counts["tokens_after"].items():
            units[behind(start)] = ({routing: each[start] for routing, each in after.items()}, count)
        for unit, (sums, count) in units.items():
            if count:
                means = {routing: total / count for routing, total in sums.items()}
                for routing, mean in {**means, **_of_several(means, found["adapters"])}.items():
                    yield record(domain, loss(routing, unit), value=mean)


def _of_several(losses: Mapping[str, float], adapters: str | None) -> dict[str, float]:
    """The losses that are made of those over other routings."""
    found = {OWN_OR_CHOSEN: losses.get(OWN, losses.get(chosen_routing(1) if adapters == "tree" else ALL))}
    if paths := [value for routing, value in losses.items() if routing.startswith(path_routing(""))]:
        found |= {BEST_PATH: min(paths), MEAN_PATH: statistics.fmean(paths)}
    return {routing: value for routing, value in found.items() if value is not None}
