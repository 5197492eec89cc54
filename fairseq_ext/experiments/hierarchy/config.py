"""The experiment file of hierarchical adapters: language models, trees of their domains, and what is measured."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from fairseq_ext.experiments.hierarchy.systems import HierarchyModel, InducedTree, Tree, read_model, read_trees
from fairseq_ext.experiments.kinds import load_as
from fairseq_ext.experiments.language_models.config import LanguageModelExperiment, read_shared
from fairseq_ext.inputs.errors import InputError
from fairseq_ext.inputs.sections import as_mapping, check_numbers, read_section


@dataclass(frozen=True)
class Evaluation:
    """What is measured, and how.

    Attributes:
        sequences: blocks of an unseen domain's training set by which its paths are chosen; the test set has no part.
        num_paths: how many paths an unseen domain is given, as the paper has 1 and 2; all are always measured too.
        choose_tokens: every sequence also chooses paths of its own, by its first so many tokens; 0 is all of them,
            and an empty list turns that off.
        every_path: systems of which every single path, and all paths below every inner node, are measured on the unseen
            domains, as in the paper's Table 4. Single adapters always are.
        max_tokens: tokens in a batch.
        cpu: whether to leave a GPU alone.
        reading: Markdown file beside the experiment file, with words on the results.
    """

    sequences: int = 1000
    num_paths: list[int] = field(default_factory=lambda: [1, 2])
    choose_tokens: list[int] = field(default_factory=lambda: [0, 32])
    every_path: list[str] = field(default_factory=list)
    max_tokens: int = 4096
    cpu: bool = False
    reading: str | None = None


@dataclass(frozen=True, kw_only=True)
class HierarchyExperiment(LanguageModelExperiment):
    """A whole experiment file.

    Attributes:
        systems: by name (``train`` in the file), none before the one that it starts from.
        trees: by name (``tree`` in the file).
        evaluate: what is measured.
    """

    systems: Mapping[str, HierarchyModel] = field(default_factory=dict, metadata={"in_file": False})
    trees: Mapping[str, Tree] = field(default_factory=dict, metadata={"in_file": False})
    evaluate: Evaluation = field(default_factory=Evaluation)

    @property
    def induced_trees(self) -> list[InducedTree]:
        """The trees that it makes."""
        return [tree for tree in self.trees.values() if isinstance(tree, InducedTree)]

    def tree_of(self, name: str) -> Tree | None:
        """The tree that a system's adapters are on."""
        tree = self.systems[name].tree
        return None if tree is None else self.trees[tree]

    def lineage(self, name: str) -> Iterator[HierarchyModel]:
        """A system, the one that it starts from, and so on."""
        start: str | None = name
        while start is not None:
            model = self.systems[start]
            yield model
            start = model.system.start

    def needs_induced_tree(self, name: str) -> bool:
        """Whether a system, or one that it starts from, can only be trained when trees have been induced."""
        trees = (self.tree_of(model.system.name) for model in self.lineage(name))
        return any(tree is not None and tree.is_induced for tree in trees)


def read_config(content: Mapping[str, Any], path: Path) -> HierarchyExperiment:
    """Read and check an experiment file.

    Raises:
        InputError: naming the file and key, and what is allowed there.
    """
    raw = dict(content)
    if "topics" in raw:
        raise InputError(f"{path}: topics: is for experiments with topic models; write kind: topics, or take it out")
    tree, evaluate = (as_mapping(raw.pop(key, {}), f"{path}: {key}") for key in ("tree", "evaluate"))
    experiment = read_shared(HierarchyExperiment, raw, path, read_model, others=["tree"])
    experiment = replace(experiment, trees=read_trees(tree, experiment))
    _check_trees(experiment)
    experiment = replace(experiment, evaluate=_read_evaluation(evaluate, f"{path}: evaluate"))
    _check_evaluation(experiment)
    return experiment


def load_config(path: Path) -> HierarchyExperiment:
    """Read and check the file of such an experiment; see :func:`read_config`."""
    return load_as(["hierarchy"], read_config, path)


def _check_trees(experiment: HierarchyExperiment) -> None:
    """Check that systems and trees fit together."""
    models, trees = experiment.systems, experiment.trees
    for name, model in models.items():
        if model.tree is not None and model.tree not in trees:
            where = f"{experiment.path}: train: systems: {name}: tree"
            raise InputError(f"{where}: no {model.tree!r} under tree; there are {', '.join(trees) or 'none'}")
    for tree in experiment.induced_trees:
        where = f"{experiment.path}: tree: {tree.name}: system: {tree.system!r}"
        if tree.system not in models or models[tree.system].adapters:
            plain = [name for name, model in models.items() if model.adapters is None]
            raise InputError(f"{where} is no language model without adapters; there are {', '.join(plain) or 'none'}")
        if len(experiment.runs[tree.system]) > 1:
            raise InputError(f"{where} has several seeds; take one with one")
        if experiment.needs_induced_tree(tree.system):
            raise InputError(f"{where} needs an induced tree itself")


def _read_evaluation(section: Mapping[str, Any], where: str) -> Evaluation:
    # An empty list has no type to check, and says: none.
    given: dict[str, Any] = {key: [] for key in ("choose_tokens", "every_path") if section.get(key) == []}
    entries = {key: value for key, value in section.items() if value is not None and key not in given}
    evaluation: Evaluation = read_section(Evaluation, entries, where, given=given)
    check_numbers({"sequences": evaluation.sequences, "max_tokens": evaluation.max_tokens}, where)
    for key, least in (("num_paths", 1), ("choose_tokens", 0)):
        for number in getattr(evaluation, key):
            if number < least:
                raise InputError(f"{where}: {key}: {number} is too small; give {least} or more")
    return evaluation


def _check_evaluation(experiment: HierarchyExperiment) -> None:
    """Check that what is measured can be, and be compared."""
    with_tree = [name for name, model in experiment.systems.items() if model.adapters == "tree"]
    for name in experiment.evaluate.every_path:
        if name not in with_tree:
            raise InputError(
                f"{experiment.path}: evaluate: every_path: {name!r} is no system with a tree; there are "
                f"{', '.join(with_tree) or 'none'}"
            )
    _check_blocks(experiment)
    if experiment.evaluate.choose_tokens:
        for name in with_tree:
            _check_clusters(experiment, name)


def _check_blocks(experiment: HierarchyExperiment) -> None:
    """Check that adapters and what they are on, which are compared, read blocks of one length."""
    for name, model in experiment.systems.items():
        if model.adapters is None or model.system.start is None:
            continue
        start = experiment.systems[model.system.start]
        if start.tokens_per_sample != model.tokens_per_sample:
            raise InputError(
                f"{experiment.path}: train: systems: {name}: tokens-per-sample: is {model.tokens_per_sample}, that of "
                f"{start.system.name!r} {start.tokens_per_sample}; give both the same, or their perplexities cannot be "
                "compared"
            )


def _check_clusters(experiment: HierarchyExperiment, name: str) -> None:
    """Check that clusters are only asked about states of the model whose states they are of."""
    tree = experiment.tree_of(name)
    base = next((model.system.name for model in experiment.lineage(name) if model.adapters is None), None)
    if isinstance(tree, InducedTree) and base not in (None, tree.system):
        raise InputError(
            f"{experiment.path}: evaluate: choose_tokens: the adapters of {name!r} are on {base!r}, whose states the "
            f"clusters of {tree.name!r} (of {tree.system!r}) do not know; write choose_tokens: []"
        )
