"""The experiment file of hierarchical adapters: language models, trees of their domains, and what is measured."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

from pydantic import Discriminator, Field, Tag, model_validator

from fairseq_ext.engine.fairseq_cli import option_of
from fairseq_ext.inputs.domain_names import NAME_PATTERN
from fairseq_ext.inputs.models import EMPTY_AS_DEFAULTS, Count, File, OneOrMore, Several
from fairseq_ext.modules.language_model_options import ADAPTERS, HIERARCHICAL_ADAPTERS
from fairseq_ext.recipes.config import Measuring, Run
from fairseq_ext.recipes.hierarchy.induction import BY_VOTES, TREE_FILE, CountOrZero, Induction, PathWeights
from fairseq_ext.recipes.language_models import LanguageModel, LanguageModelExperiment

TREE, SINGLE, MULTI = ADAPTERS


class InducedTree(Induction):
    """Options of an induction."""

    system: str | None = None
    """The language model whose states of the text the tree is induced from; by default the first system."""


def _kind_of_tree(value: Any) -> str:
    return "[file]" if isinstance(value, str | Path) else "[induced]"


# A tree drawn by hand is the name of its file.
Tree = Annotated[
    Annotated[File, Tag("[file]")] | Annotated[InducedTree, Tag("[induced]")], Discriminator(_kind_of_tree)
]


class HierarchyModel(LanguageModel):
    """A language model, with adapters or without. Other keys are options of fairseq-train."""

    tree: str | None = None
    """The tree that its adapters are on."""

    @property
    def adapters(self) -> str | None:
        """``tree``, ``single`` or ``multi``; None for a model without adapters."""
        if not self.is_a(HIERARCHICAL_ADAPTERS):
            return None
        return str(option_of(self.options, "adapters") or TREE)

    @model_validator(mode="after")
    def _check_adapters(self) -> HierarchyModel:
        if (self.tree is None) != (self.adapters is None):
            raise ValueError(f"tree: goes with an arch {HIERARCHICAL_ADAPTERS}*, and that with a tree")
        if self.adapters is not None and self.start is None:
            raise ValueError("from: is missing; adapters go on a trained language model, which stays as it is")
        return self


class Evaluate(Measuring):
    """How models are measured."""

    sequences: Count = 1000
    """Blocks of an unseen domain's training set by which its paths are chosen."""
    num_paths: OneOrMore[Count] = (1, 2)
    """How many paths an unseen domain is given; all paths are always measured too."""
    path_weights: OneOrMore[PathWeights] = ("votes",)
    """How paths of an induced tree are averaged: by their votes, or uniform: each counts the same; or both, listed."""
    choose_tokens: Several[CountOrZero] = (0, 32)
    """Every block also chooses its own paths, by its first so many tokens; 0 is all of them, an empty list none."""
    every_path: Several[str] = ()
    """Systems with a tree of which every path is measured on unseen domains. Single adapters always are."""
    max_tokens: Count = 4096
    """Tokens in a batch; changes no result."""


class Hierarchy(LanguageModelExperiment[HierarchyModel]):
    """An experiment with hierarchical adapters."""

    tree: Annotated[dict[Annotated[str, Field(pattern=NAME_PATTERN)], Tree], EMPTY_AS_DEFAULTS] = {}
    """Trees by name."""
    evaluate: Annotated[Evaluate, EMPTY_AS_DEFAULTS] = Evaluate()

    @property
    def induced_trees(self) -> Mapping[str, InducedTree]:
        """The trees that are induced, by name."""
        return {name: tree for name, tree in self.tree.items() if isinstance(tree, InducedTree)}

    def systems_on(self, tree: str) -> dict[str, str]:
        """The systems on a tree by name, with their adapters."""
        return {name: str(system.adapters) for name, system in self.systems.items() if system.tree == tree}

    def tree_file(self, name: str) -> Path:
        """The file of a tree."""
        tree = self.tree[name]
        return tree if isinstance(tree, Path) else self.work_dir / "trees" / name / TREE_FILE

    def paths_dir(self, tree: str) -> Path:
        """Where the paths are that unseen domains choose of an induced tree."""
        return self.work_dir / "paths" / tree

    def path_weights(self, tree: str | None, num_paths: int) -> Sequence[str]:
        """How so many paths of a tree are weighted; one path needs no weight, and a tree drawn by hand has no votes."""
        return self.evaluate.path_weights if num_paths > 1 and tree in self.induced_trees else [BY_VOTES]

    def induction_of(self, name: str) -> Induction:
        """How a tree is induced."""
        given = self.induced_trees[name].model_dump(exclude_unset=True, exclude={"system"})
        return Induction(**{"seed": self.seed, **given})

    def encoder_of(self, name: str) -> Run:
        """The run whose states a tree is induced from."""
        return self.runs[self._encoder(name)][0]

    def lineage(self, name: str) -> Iterator[HierarchyModel]:
        """A system, the one that it starts from, and so on."""
        start: str | None = name
        while start is not None:
            system = self.systems[start]
            yield system
            start = system.start

    def needs_induced_tree(self, name: str) -> bool:
        """Whether a system, or one that it starts from, is on an induced tree."""
        return any(system.tree in self.induced_trees for system in self.lineage(name))

    def _encoder(self, tree: str) -> str:
        first = next((name for name, system in self.systems.items() if system.start is None), "")
        return self.induced_trees[tree].system or first

    @model_validator(mode="after")
    def _check_trees(self) -> Hierarchy:
        for name, system in self.systems.items():
            if system.tree is not None and system.tree not in self.tree:
                raise ValueError(
                    f"train: systems: {name}: tree: no {system.tree!r} under tree; there are "
                    f"{', '.join(self.tree) or 'none'}"
                )
        plain = [name for name, system in self.systems.items() if system.adapters is None]
        for name in self.induced_trees:
            if self._encoder(name) not in plain:
                raise ValueError(
                    f"tree: {name}: system: {self._encoder(name)!r} is no language model without adapters; there are "
                    f"{', '.join(plain) or 'none'}"
                )
        return self

    @model_validator(mode="after")
    def _check_blocks(self) -> Hierarchy:
        """Perplexities are compared over blocks of one length."""
        for name, system in self.systems.items():
            if system.adapters is None or system.start is None:
                continue
            expected = self.systems[system.start].tokens_per_sample
            if system.tokens_per_sample != expected:
                raise ValueError(
                    f"train: systems: {name}: tokens-per-sample: is {system.tokens_per_sample}, that of "
                    f"{system.start!r} {expected}; give both the same, or their perplexities cannot be compared"
                )
        return self

    @model_validator(mode="after")
    def _check_evaluation(self) -> Hierarchy:
        with_tree = [name for name, system in self.systems.items() if system.adapters == TREE]
        for name in self.evaluate.every_path:
            if name not in with_tree:
                raise ValueError(
                    f"evaluate: every_path: {name!r} is no system with a tree; there are "
                    f"{', '.join(with_tree) or 'none'}"
                )
        if self.evaluate.choose_tokens:
            for name in with_tree:
                self._check_clusters(name)
        return self

    def _check_clusters(self, name: str) -> None:
        """The clusters of a tree know only the states of the model that it was induced from."""
        tree = self.systems[name].tree
        base = next((system.name for system in self.lineage(name) if system.adapters is None), None)
        if tree is None or tree not in self.induced_trees or base in (None, self._encoder(tree)):
            return
        raise ValueError(
            f"evaluate: choose_tokens: the adapters of {name!r} are on {base!r}, whose states the clusters of {tree!r} "
            f"(of {self._encoder(tree)!r}) do not know; write choose_tokens: []"
        )
