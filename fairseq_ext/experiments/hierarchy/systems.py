"""Trees of an experiment, and the systems that have adapters on them.

Beside what all language models have, a system may have a ``tree``, one of those under ``tree``. Systems of the same
tree belong together: they are trained on its domains and compared with each other.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from fairseq_ext.domains.domain_tree import read_tree
from fairseq_ext.domains.names import check_domain_names
from fairseq_ext.engine.fairseq_cli import option_of
from fairseq_ext.experiments.language_models.config import LanguageModelExperiment
from fairseq_ext.experiments.language_models.systems import LanguageModel, read_language_model
from fairseq_ext.experiments.systems import take
from fairseq_ext.induction.options import TREE_FILE, Induction
from fairseq_ext.inputs.errors import InputError, shown
from fairseq_ext.inputs.sections import as_mapping, read_section
from fairseq_ext.modules.language_model_options import ADAPTERS, HIERARCHICAL_ADAPTERS
from fairseq_ext.recipes.config import System

_STARTS = ("finetune-from-model", "restore-file")  # fairseq's own ways to start from a checkpoint


@dataclass(frozen=True)
class Tree:
    """One entry under ``tree``: a tree drawn by hand, unless it is an :class:`InducedTree`.

    Attributes:
        name: its name.
        path: of its file, or where the induced tree will lie.
    """

    name: str
    path: Path

    @cached_property
    def domains(self) -> list[str]:
        """Its domains, sorted, as its file says.

        Raises:
            InputError: if the file is no tree.
        """
        return sorted(read_tree(self.path).domains)

    @property
    def is_induced(self) -> bool:
        """Whether it is made by the experiment, with clusters that can choose paths."""
        return isinstance(self, InducedTree)


@dataclass(frozen=True)
class InducedTree(Tree):
    """A tree that the experiment makes, of all domains of its data.

    Attributes:
        system: the language model whose states it is induced from.
        induction: how.
    """

    system: str
    induction: Induction


@dataclass(frozen=True)
class HierarchyModel(LanguageModel):
    """A language model with adapters, or without.

    Attributes:
        tree: the name of the tree that its adapters are on; None for a model without.
    """

    tree: str | None = None

    @property
    def adapters(self) -> str | None:
        """``tree``, ``single`` or ``multi``; None for a model without adapters."""
        if not self.is_a(HIERARCHICAL_ADAPTERS):
            return None
        return str(option_of(self.system.options, "adapters") or ADAPTERS[0])


def read_model(system: System, where: str) -> HierarchyModel:
    """What a system is; whether there is such a tree is not asked.

    Raises:
        InputError: naming ``where`` and the key that cannot be used.
    """
    options = dict(system.options)
    tree = take(options, "tree", str, None, where)
    plain = read_language_model(system.model_copy(update={"options": options}), where)
    model = HierarchyModel(plain.system, plain.checkpoint, tree)
    if (tree is None) != (model.adapters is None):
        raise InputError(f"{where}: tree: goes with an arch {HIERARCHICAL_ADAPTERS}*, and that with a tree")
    if model.adapters is not None:
        _check_adapters(model, where)
    return model


def read_trees(section: Mapping[str, Any], experiment: LanguageModelExperiment) -> dict[str, Tree]:
    """The trees of a section ``tree``.

    Args:
        section: its content.
        experiment: what else the file says.

    Raises:
        InputError: naming an entry that is neither a file nor options of an induction.
    """
    where = f"{experiment.path}: tree"
    if section:
        check_domain_names(sorted(section), where)
    return {name: _read_tree(name, entry, experiment, f"{where}: {name}") for name, entry in section.items()}


def _check_adapters(model: HierarchyModel, where: str) -> None:
    if model.checkpoint is not None:
        raise InputError(f"{where}: checkpoint: is not trained, so it has no adapters; take them out")
    if model.system.start is None and not any(option_of(model.system.options, key) for key in _STARTS):
        raise InputError(f"{where}: from: is missing; adapters go on a trained language model, which stays as it is")
    if model.adapters not in ADAPTERS:
        raise InputError(f"{where}: adapters: {model.adapters!r} is unknown; choose one of {', '.join(ADAPTERS)}")


def _read_tree(name: str, entry: Any, experiment: LanguageModelExperiment, where: str) -> Tree:
    if isinstance(entry, str):
        return Tree(name, Path(entry))
    if not isinstance(entry, dict):
        raise InputError(f"{where}: expected a file, or the options of an induction, got {shown(entry)}")
    options = dict(as_mapping(entry, where))
    system = take(options, "system", str, None, where) or _first_system(experiment, where)
    path = experiment.work_dir / "trees" / name / TREE_FILE
    return InducedTree(name, path, system, _read_induction(options, experiment.seed, where))


def _first_system(experiment: LanguageModelExperiment, where: str) -> str:
    """What trees are induced from if the file does not say: the first system."""
    for name, model in experiment.systems.items():
        if model.system.start is None:
            return name
    raise InputError(f"{where}: system: there is no system under train: systems that could encode the text")


def _read_induction(options: Mapping[str, Any], seed: int, where: str) -> Induction:
    given: Mapping[str, int] = {} if "seed" in options else {"seed": seed}
    induction: Induction = read_section(Induction, options, where, given=given)
    try:
        induction.check()
    except InputError as error:
        raise InputError(f"{where}: {error}") from None
    return induction
