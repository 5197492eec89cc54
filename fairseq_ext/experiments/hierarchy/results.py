"""What an experiment with language models has measured, read from its folder, and what its file says of its systems."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fairseq_ext.domains.domain_tree import DomainTree, read_tree
from fairseq_ext.experiments.hierarchy.config import HierarchyExperiment
from fairseq_ext.report.records import read_result as read_record

# Relative to the experiment's folder; the first is by run, the others by tree.
PERPLEXITY_FILE = "perplexity/{}/perplexity.json"
PATHS_FILE = "paths/{}/paths.json"
VOTES_FILE = "paths/{}/votes.json"
CLUSTERS_FILE = "trees/{}/clusters.json"


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
    """The records of an experiment; what has not been made is missing.

    Attributes:
        perplexity: by run; see :mod:`fairseq_ext.experiments.hierarchy.evaluate`.
        trees: by name.
        paths: by tree, the leaves chosen for each unseen domain.
        votes: by tree, how many of its sequences voted for each leaf.
        clusters: by tree, how it was induced.
    """

    perplexity: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    trees: Mapping[str, DomainTree] = field(default_factory=dict)
    paths: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    votes: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    clusters: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    @property
    def unseen(self) -> list[str]:
        """The unseen domains."""
        return next((list(record["unseen"]) for record in self.perplexity.values()), [])

    def loss(self, run: str, domain: str, routing: str, unit: str = "tokens") -> float | None:
        """Mean negative log-likelihood in nats; None if it was not measured.

        Args:
            run: that scored.
            domain: whose test set.
            routing: over which adapters.
            unit: a mean over ``tokens``, ``words``, or with ``after:N`` the tokens behind the first N of each block.
        """
        record = self.perplexity.get(run, {})
        after = unit.removeprefix("after:") if unit.startswith("after:") else None
        nats = record.get("nats" if after is None else "nats_after", {}).get(domain, {}).get(routing)
        if after is not None and nats is not None:
            nats = nats.get(after)
        if nats is None:
            return None
        count = record["sets"][domain][unit] if after is None else record["sets"][domain]["tokens_after"][after]
        return nats / count if count else None


def read_results(experiment: HierarchyExperiment) -> LmResults:
    """Read whatever records there are.

    Raises:
        InputError: if one of them cannot be read.
    """
    work_dir, trees = experiment.work_dir, experiment.trees
    runs = [run.name for run in experiment.all_runs]
    return LmResults(
        perplexity=_records(work_dir, PERPLEXITY_FILE, runs),
        trees={name: read_tree(tree.path) for name, tree in trees.items() if tree.path.is_file()},
        paths=_records(work_dir, PATHS_FILE, trees),
        votes=_records(work_dir, VOTES_FILE, trees),
        clusters=_records(work_dir, CLUSTERS_FILE, trees),
    )


def result_files(experiment: HierarchyExperiment) -> list[Path]:
    """Where all records would be."""
    trees, runs = experiment.trees, [run.name for run in experiment.all_runs]
    names = [PERPLEXITY_FILE.format(run) for run in runs]
    names += [pattern.format(name) for name in trees for pattern in (PATHS_FILE, VOTES_FILE, CLUSTERS_FILE)]
    return [experiment.work_dir / name for name in names] + [tree.path for tree in trees.values()]


def geometric_mean(losses: Iterable[float]) -> float:
    """The perplexity of a mean loss, which no single domain of a high perplexity decides."""
    return math.exp(statistics.fmean(losses))


def _records(work_dir: Path, pattern: str, names: Iterable[str]) -> dict[str, dict[str, Any]]:
    found = {name: read_record(work_dir / pattern.format(name)) for name in names}
    return {name: record for name, record in found.items() if record is not None}
