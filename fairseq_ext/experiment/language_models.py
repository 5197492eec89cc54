"""Systems, trees and measurements of an experiment file of language models.

Systems are those of :mod:`fairseq_ext.experiment.runs`, with two keys of their own: ``tree``, one of the trees under
``tree``, and ``checkpoint``, a model that is there already and only measured. Systems of the same tree belong together:
they are trained on its domains and compared with each other.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fairseq_ext.domains.domain_tree import read_tree
from fairseq_ext.domains.names import check_domain_names
from fairseq_ext.errors import InputError
from fairseq_ext.experiment.lm_config import LanguageModelExperiment
from fairseq_ext.experiment.runs import Run, System, expand, fitting_run, named_run, option_of, systems_of
from fairseq_ext.experiment.yaml_sections import as_mapping, check_numbers, read_section

HIERARCHICAL = "transformer_lm_hier_adapter"
TREE_FILE = "tree.json"
_ADAPTERS = ("tree", "single", "multi")
_STARTS = ("finetune-from-model", "restore-file")  # fairseq's own ways to start from a checkpoint
_DEFAULT_BLOCK = 1024  # fairseq's


@dataclass(frozen=True)
class Tree:
    """One entry under ``tree``: a file, or how to induce it.

    Attributes:
        name: its name.
        path: of the file, or where the induced tree will lie.
        system: the language model whose states it is induced from; None for a tree drawn by hand.
        options: of the induction.
    """

    name: str
    path: Path
    system: str | None = None
    options: dict[str, Any] = field(default_factory=dict)

    @property
    def is_induced(self) -> bool:
        """Whether it is made by the experiment, with clusters that can choose paths."""
        return self.system is not None


@dataclass(frozen=True)
class LanguageModel:
    """A system and what only language models have.

    Attributes:
        system: what is trained; its options are fairseq-train's.
        tree: the name of its tree, if any.
        checkpoint: a trained model that takes the place of a training.
    """

    system: System
    tree: str | None = None
    checkpoint: Path | None = None

    @property
    def adapters(self) -> str | None:
        """``tree``, ``single`` or ``multi``; None for a model without adapters."""
        if not str(option_of(self.system.options, "arch")).startswith(HIERARCHICAL):
            return None
        return str(option_of(self.system.options, "adapters") or "tree")

    @property
    def tokens_per_sample(self) -> int:
        """How long its blocks of text are."""
        return int(option_of(self.system.options, "tokens-per-sample") or _DEFAULT_BLOCK)


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


def trees_of(config: LanguageModelExperiment) -> dict[str, Tree]:
    """The trees under ``tree``.

    Raises:
        InputError: naming an entry that is neither a file nor options, or a system that is not there.
    """
    where = f"{config.path}: tree"
    if config.tree:
        check_domain_names(sorted(map(str, config.tree)), where)
    return {name: _read_tree(config, name, entry, f"{where}: {name}") for name, entry in config.tree.items()}


def language_models_of(config: LanguageModelExperiment) -> dict[str, LanguageModel]:
    """The systems under ``train: systems``, in the order of the file but none before the one that it starts from.

    Raises:
        InputError: naming a key, value, system or tree that cannot be used.
    """
    trees, models = trees_of(config), {}
    for name, system in systems_of(config).items():
        models[name] = _read_model(system, trees, f"{config.path}: train: systems: {name}")
    for tree in trees.values():
        if tree.is_induced and (tree.system not in models or models[tree.system].adapters):
            plain = [name for name, model in models.items() if model.adapters is None]
            raise InputError(
                f"{config.path}: tree: {tree.name}: system: {tree.system!r} is no language model without adapters; "
                f"there are {', '.join(plain) or 'none'}"
            )
    return models


def language_model_of(config: LanguageModelExperiment, name: str) -> LanguageModel:
    """The language model of a system or of one of its runs.

    Raises:
        InputError: if there is none of this name.
    """
    models, system = language_models_of(config), name.partition("@")[0]
    if system not in models:
        raise InputError(f"{config.path}: train: systems: no {system!r}; there are {', '.join(models) or 'none'}")
    return models[system]


def lm_runs_of(config: LanguageModelExperiment, name: str) -> list[Run]:
    """The runs of a system, one a seed, or the one run of this name.

    Raises:
        InputError: if there is no such system or run.
    """
    model = language_model_of(config, name)
    runs = expand(model.system, config.seed, ())
    if "@" not in name:
        return runs
    return [named_run(runs, name, f"{config.path}: train: systems: {model.system.name}")]


def all_lm_runs(config: LanguageModelExperiment) -> list[Run]:
    """The runs of all systems, in order."""
    return [run for name in language_models_of(config) for run in lm_runs_of(config, name)]


def lm_start_of(config: LanguageModelExperiment, run: Run) -> Run | None:
    """The run that a run starts from; see :func:`fairseq_ext.experiment.runs.fitting_run`."""
    if run.system.start is None:
        return None
    return fitting_run(run, lm_runs_of(config, run.system.start), f"{config.path}: train: systems")


def needs_induced_tree(config: LanguageModelExperiment, name: str) -> bool:
    """Whether a system, or one that it starts from, can only be trained when trees have been induced."""
    model, trees = language_model_of(config, name), trees_of(config)
    if model.tree is not None and trees[model.tree].is_induced:
        return True
    return model.system.start is not None and needs_induced_tree(config, model.system.start)


def domains_of_tree(tree: Tree) -> list[str] | None:
    """The domains of a tree drawn by hand, sorted; None for an induced one, which has all of the data's.

    Raises:
        InputError: if the file is no tree.
    """
    return None if tree.is_induced else sorted(read_tree(tree.path).domains)


def evaluation_of(config: LanguageModelExperiment) -> Evaluation:
    """The section ``evaluate``.

    Raises:
        InputError: naming a key or value that cannot be used.
    """
    where = f"{config.path}: evaluate"
    # An empty list has no type to check, and says: none.
    given: dict[str, Any] = {key: [] for key in ("choose_tokens", "every_path") if config.evaluate.get(key) == []}
    entries = {key: value for key, value in config.evaluate.items() if value is not None and key not in given}
    evaluation: Evaluation = read_section(Evaluation, entries, where, given=given)
    check_numbers({"sequences": evaluation.sequences, "max_tokens": evaluation.max_tokens}, where)
    for key, least in (("num_paths", 1), ("choose_tokens", 0)):
        for number in getattr(evaluation, key):
            if number < least:
                raise InputError(f"{where}: {key}: {number} is too small; give {least} or more")
    models = language_models_of(config)
    for name in evaluation.every_path:
        if name not in models or models[name].adapters != "tree":
            with_tree = [other for other, model in models.items() if model.adapters == "tree"]
            raise InputError(
                f"{where}: every_path: {name!r} is no system with a tree; there are {', '.join(with_tree) or 'none'}"
            )
    _check_blocks(models, f"{config.path}: train: systems")
    if evaluation.choose_tokens:
        _check_clusters(models, trees_of(config), where)
    return evaluation


def _check_blocks(models: Mapping[str, LanguageModel], where: str) -> None:
    """Check that adapters and what they are on, which are compared, read blocks of one length."""
    for name, model in models.items():
        start = models.get(model.system.start or "")
        if model.adapters is not None and start is not None and start.tokens_per_sample != model.tokens_per_sample:
            raise InputError(
                f"{where}: {name}: tokens-per-sample: is {model.tokens_per_sample}, that of {start.system.name!r} "
                f"{start.tokens_per_sample}; give both the same, or their perplexities cannot be compared"
            )


def _check_clusters(models: Mapping[str, LanguageModel], trees: Mapping[str, Tree], where: str) -> None:
    """Check that clusters are only asked about states of the model whose states they are of."""
    for name, model in models.items():
        tree = trees.get(model.tree or "")
        if model.adapters != "tree" or tree is None or not tree.is_induced:
            continue
        base = model
        while base.adapters is not None and base.system.start is not None:
            base = models[base.system.start]
        if base.adapters is None and base.system.name != tree.system:
            raise InputError(
                f"{where}: choose_tokens: the adapters of {name!r} are on {base.system.name!r}, whose states the "
                f"clusters of {tree.name!r} (of {tree.system!r}) do not know; write choose_tokens: []"
            )


def _read_tree(config: LanguageModelExperiment, name: str, entry: Any, where: str) -> Tree:
    if isinstance(entry, str):
        return Tree(name, Path(entry))
    if not isinstance(entry, dict):
        raise InputError(f"{where}: expected a file, or the options of an induction, got {entry!r}")
    options = dict(as_mapping(entry, where))
    system = options.pop("system", None) or _first_system(config, where)
    return Tree(name, config.work_dir / "trees" / name / TREE_FILE, str(system), options)


def _first_system(config: LanguageModelExperiment, where: str) -> str:
    """What trees are induced from if the file does not say: the first system."""
    for name, system in systems_of(config).items():
        if system.start is None:
            return name
    raise InputError(f"{where}: system: there is no system under train: systems that could encode the text")


def _read_model(system: System, trees: Mapping[str, Tree], where: str) -> LanguageModel:
    if system.uses_teacher or system.per_domain:
        key = "uses_teacher" if system.uses_teacher else "per_domain"
        raise InputError(f"{where}: {key}: is for translation; take it out")
    options = dict(system.options)
    tree, checkpoint = options.pop("tree", None), options.pop("checkpoint", None)
    if checkpoint is not None and not isinstance(checkpoint, str):
        raise InputError(f"{where}: checkpoint: expected the path of a checkpoint, got {checkpoint!r}")
    system = System(system.name, system.start, seeds=system.seeds, data=system.data, options=options)
    model = LanguageModel(system, tree, Path(checkpoint) if checkpoint else None)
    if checkpoint is not None and (system.start or system.seeds or model.adapters):
        raise InputError(f"{where}: checkpoint: is not trained, so it has no from, seeds or adapters; take them out")
    if tree is not None and tree not in trees:
        raise InputError(f"{where}: tree: no {tree!r} under tree; there are {', '.join(trees) or 'none'}")
    if (tree is None) != (model.adapters is None):
        raise InputError(f"{where}: tree: goes with an arch {HIERARCHICAL}*, and that with a tree")
    if model.adapters is not None and system.start is None and not any(option_of(options, key) for key in _STARTS):
        raise InputError(f"{where}: from: is missing; adapters go on a trained language model, which stays as it is")
    if model.adapters is not None and model.adapters not in _ADAPTERS:
        raise InputError(f"{where}: adapters: {model.adapters!r} is unknown; choose one of {', '.join(_ADAPTERS)}")
    return model
