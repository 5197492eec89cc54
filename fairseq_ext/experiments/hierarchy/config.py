"""Experiment file of hierarchical adapters: language models, domain trees and measurements."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Discriminator, Field, Tag, model_validator

from fairseq_ext.base.domain_names import NAME_PATTERN
from fairseq_ext.base.errors import check_choice
from fairseq_ext.base.fairseq_cli import option_of
from fairseq_ext.base.sections import EMPTY_AS_DEFAULTS, LARGEST, Count, File, Number, OneOrMore, Section, Seed, Several
from fairseq_ext.experiments.config import Measuring
from fairseq_ext.experiments.language_models import LanguageModel, LanguageModelExperiment, checkpoint_of
from fairseq_ext.experiments.metrics.records import Dimension
from fairseq_ext.modules.language_model_options import ADAPTERS, HIERARCHICAL_ADAPTERS

TREE, SINGLE, MULTI = ADAPTERS

TREE_FILE, RECORD_FILE = "tree.json", "clusters.json"  # files of an induced tree
DOMAINS_BY_CLUSTER = "domains-by-cluster.svg"
PATHS_FILE, VOTES_FILE = "paths.json", "votes.json"

BY_VOTES, UNIFORM = "votes", "uniform"
PathWeights = Literal["votes", "uniform"]

# Metrics: negative log-likelihoods, with one end of sentence per line, and others.
LOSS, WORD_LOSS = "nats per token", "nats per word"
CHOOSING_LOSS, VOTES, FLOPS = "loss to choose by", "votes", "added_flops of base_flops"

# The adapters that score a text, as dimensions of its loss: those of its own domain, all paths of the tree, none (in
# models without adapters), ``{"path": LEAF}`` for one path, and :func:`chosen` paths.
Routing = Mapping[str, Dimension]
OWN: Routing = {"paths": "own"}
ALL: Routing = {"paths": "all"}
NONE: Routing = {"paths": "none"}
# Of the losses over each single path.
BEST_PATH: Routing = {"paths": "best"}
MEAN_PATH: Routing = {"paths": "mean"}

CountOrZero = Annotated[int, Field(ge=0, lt=LARGEST)]


def chosen(num_paths: int, weights: str) -> Routing:
    """Return the routing over ``num_paths`` paths chosen for the domain, weighted by votes or uniformly."""
    return {"paths": num_paths, "weights": weights}


class Induction(Section):
    """Options of tree induction."""

    sequences: Count = 1000
    """Number of text blocks per domain."""
    tokens: CountOrZero = 0
    """Tokens per block; 0 for the block length used to train the language model."""
    split: str = "train"
    """Split that blocks are drawn from."""
    dimensions: Count = 100
    """Number of principal components."""
    components: CountOrZero = 0
    """Number of Gaussians in the mixture; 0 for one per domain."""
    covariance_floor: Annotated[Number, Field(ge=0)] = 1e-2
    """Minimum variance of a Gaussian in any direction, as a share of the mean variance."""
    seed: Seed = 1
    """Random seed for drawing blocks and initialising the mixture."""


class PathChoice(Section):
    """Options for choosing paths."""

    num_paths: Count = 2
    """Maximum number of leaves per domain; leaves without votes are not chosen."""
    sequences: Count = 1000
    """Maximum number of blocks per domain that vote."""
    choose_tokens: CountOrZero = 0
    """Number of tokens at the start of each block that are used; 0 for all."""
    split: str = "train"
    """Split that blocks are drawn from; evaluate on another one."""
    seed: Seed = 1
    """Random seed for drawing blocks."""


class InducedTree(Induction):
    """An induced tree: options of its induction."""

    system: str | None = None
    """Language model whose hidden states the tree is induced from; by default the first system without ``from``."""


def _kind_of_tree(value: Any) -> str:
    return "[file]" if isinstance(value, str | Path) else "[induced]"


# A hand-made tree is given by the name of its file.
Tree = Annotated[
    Annotated[File, Tag("[file]")] | Annotated[InducedTree, Tag("[induced]")], Discriminator(_kind_of_tree)
]


class HierarchyModel(LanguageModel):
    """A language model with or without adapters. Other keys are options of fairseq-train."""

    tree: str | None = None
    """Name of the tree for its adapters."""

    @property
    def adapters(self) -> str | None:
        """``tree``, ``single`` or ``multi``; None for a model without adapters."""
        if not self.is_a(HIERARCHICAL_ADAPTERS):
            return None
        return str(option_of(self.options, "adapters") or TREE)

    @model_validator(mode="after")
    def _check_adapters(self) -> HierarchyModel:
        if (self.tree is None) != (self.adapters is None):
            raise ValueError(f"tree: set both a tree and an arch {HIERARCHICAL_ADAPTERS}*, or neither")
        if self.adapters is not None and self.start is None:
            raise ValueError("from: is missing; name the trained language model that the adapters are added to")
        return self


class Evaluate(Measuring):
    """Options of the evaluation."""

    sequences: Count = 1000
    """Number of training blocks used to choose the paths of an unseen domain."""
    num_paths: OneOrMore[Count] = (1, 2)
    """Numbers of paths to use for an unseen domain; using all paths is always measured too."""
    path_weights: OneOrMore[PathWeights] = ("votes",)
    """Weights of the paths of an induced tree: votes, uniform (equal weights), or a list of both."""
    every_path: Several[str] = ()
    """Systems with a tree for which every path is measured on unseen domains. Single adapters are always included."""
    max_tokens: Count = 4096
    """Maximum number of tokens in a batch; does not change results."""


class Hierarchy(LanguageModelExperiment[HierarchyModel]):
    """Experiment with hierarchical adapters."""

    base_type = HierarchyModel

    tree: Annotated[dict[Annotated[str, Field(pattern=NAME_PATTERN)], Tree], EMPTY_AS_DEFAULTS] = {}
    """Trees by name."""
    evaluate: Annotated[Evaluate, EMPTY_AS_DEFAULTS] = Evaluate()

    @property
    def induced_trees(self) -> Mapping[str, InducedTree]:
        """Induced trees by name."""
        return {name: tree for name, tree in self.tree.items() if isinstance(tree, InducedTree)}

    def systems_on(self, tree: str) -> dict[str, str]:
        """Map the names of the systems on a tree to their kind of adapters."""
        return {name: str(system.adapters) for name, system in self.systems.items() if system.tree == tree}

    def tree_dir(self, name: str) -> Path:
        """Return the directory of an induced tree."""
        return self.work_dir / "trees" / name

    def tree_file(self, name: str) -> Path:
        """Return the file of a tree."""
        tree = self.tree[name]
        return tree if isinstance(tree, Path) else self.tree_dir(name) / TREE_FILE

    def paths_dir(self, tree: str) -> Path:
        """Return the directory of the paths of an induced tree that are chosen for unseen domains."""
        return self.work_dir / "paths" / tree

    def clusters_of(self, name: str) -> Path | None:
        """Return the directory of the clusters that choose paths of a system's tree; None if there are none."""
        system = self.systems[name]
        is_induced = system.adapters == TREE and system.tree in self.induced_trees
        return self.tree_dir(str(system.tree)) if is_induced else None

    def has_every_path(self, name: str) -> bool:
        """Return whether each path of a system's tree is measured on unseen domains."""
        return name in self.evaluate.every_path or self.systems[name].adapters == SINGLE

    def path_weights(self, tree: str | None, num_paths: int) -> Sequence[str]:
        """Return the weightings of ``num_paths`` paths of a tree to measure.

        There is only one for single paths, which need no weights, and for hand-made trees, which have no votes.
        """
        return self.evaluate.path_weights if num_paths > 1 and tree in self.induced_trees else [BY_VOTES]

    def induction_of(self, name: str) -> Induction:
        """Return the induction options of a tree; the default seed is that of the experiment."""
        options = self.induced_trees[name].model_dump(exclude_unset=True, exclude={"system"})
        return Induction(**{"seed": self.seed, **options})

    def encoder_of(self, tree: str) -> Path:
        """Return the checkpoint of the language model that a tree is induced from."""
        return checkpoint_of(self, self.runs[self._encoder(tree)][0])

    def needs_induced_tree(self, name: str) -> bool:
        """Return whether a system, or one that it starts from, uses an induced tree."""
        system = self.systems[name]
        return system.tree in self.induced_trees or (system.start is not None and self.needs_induced_tree(system.start))

    def _encoder(self, tree: str) -> str:
        first = next((name for name, system in self.systems.items() if system.start is None), "")
        return self.induced_trees[tree].system or first

    @model_validator(mode="after")
    def _check_names(self) -> Hierarchy:
        plain = [name for name, system in self.systems.items() if system.adapters is None]
        with_tree = [name for name, system in self.systems.items() if system.adapters == TREE]
        for name, system in self.systems.items():
            if system.tree is not None:
                check_choice(system.tree, list(self.tree), f"{self.path}: train: systems: {name}: tree")
        for name in self.induced_trees:
            check_choice(self._encoder(name), plain, f"{self.path}: tree: {name}: system")
        for name in self.evaluate.every_path:
            check_choice(name, with_tree, f"{self.path}: evaluate: every_path")
        return self

    @model_validator(mode="after")
    def _check_blocks(self) -> Hierarchy:
        """Check that compared systems have the same block length."""
        for name, system in self.systems.items():
            if system.adapters is None or system.start is None:
                continue
            expected = self.systems[system.start].tokens_per_sample
            if system.tokens_per_sample != expected:
                raise ValueError(
                    f"train: systems: {name}: tokens-per-sample: is {system.tokens_per_sample}, but {system.start!r} "
                    f"has {expected}; set the same value in both, so that their perplexities can be compared"
                )
        return self
