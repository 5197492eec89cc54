"""Training the language models of an experiment, inducing their trees, and choosing paths: as steps."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from fairseq_ext.engine.steps import Step
from fairseq_ext.errors import InputError
from fairseq_ext.experiment.language_models import (
    Tree,
    domains_of_tree,
    evaluation_of,
    language_model_of,
    lm_runs_of,
    lm_start_of,
    trees_of,
)
from fairseq_ext.experiment.lm_config import LanguageModelExperiment
from fairseq_ext.experiment.runs import Run, option_of
from fairseq_ext.experiment.yaml_sections import read_section
from fairseq_ext.induction.choose_paths import PathChoice
from fairseq_ext.induction.induce_tree import Induction
from fairseq_ext.pipeline.fairseq_cli import as_arguments
from fairseq_ext.pipeline.training import best_checkpoint, system_dir, train_step
from fairseq_ext.preparation.lm_prepare import DATA_DIR, UNSEEN_DATA_DIR

TASK = "multi_domain_language_modeling"


def lm_checkpoint(config: LanguageModelExperiment, run: Run) -> Path:
    """The checkpoint of a run: what was trained, or what the file names."""
    return language_model_of(config, run.name).checkpoint or best_checkpoint(config, run.name)


def lm_training_step(config: LanguageModelExperiment, run: Run) -> Step | None:
    """The step that trains one run; None for a model that is there already.

    Raises:
        InputError: if that is not the case, or the tree's file is none.
    """
    model = language_model_of(config, run.name)
    if model.checkpoint is not None:
        if not model.checkpoint.is_file():
            raise InputError(
                f"{config.path}: train: systems: {run.system.name}: checkpoint: no file {model.checkpoint}; a GPT-2 is "
                "imported by scripts/import_gpt2.py"
            )
        return None
    inputs = [run.system.data or config.work_dir / DATA_DIR]
    arguments = ["--task", TASK, "--seed", str(run.seed), "--no-epoch-checkpoints"]
    options = dict(run.system.options)
    if start := lm_start_of(config, run):
        inputs.append(lm_checkpoint(config, start))
        arguments += ["--finetune-from-model", str(inputs[-1])]
    if model.tree is not None:
        tree = trees_of(config)[model.tree]
        inputs.append(tree.path)
        arguments += ["--tree", str(tree.path)]
        if (domains := domains_of_tree(tree)) and option_of(options, "train-domains") is None:
            options["train-domains"] = ",".join(domains)
    arguments += as_arguments(options)
    return train_step(
        system_dir(config, run.name), inputs, arguments, {"system": options, "extra": [], "seed": run.seed}
    )


def tree_step(config: LanguageModelExperiment, tree: Tree) -> Step:
    """The step that induces a tree.

    Raises:
        InputError: naming a wrong option, or that there are several models to induce it from.
    """
    options = _induction_of(config, tree)
    runs = lm_runs_of(config, str(tree.system))
    if len(runs) > 1:
        raise InputError(
            f"{config.path}: tree: {tree.name}: system: {tree.system!r} has several seeds; take one with one"
        )
    checkpoint, data = lm_checkpoint(config, runs[0]), config.work_dir / DATA_DIR
    cpu = evaluation_of(config).cpu

    def build(folder: Path) -> None:
        # Loads fairseq.
        from fairseq_ext.induction.induce_tree import write_tree

        write_tree(folder, checkpoint, data, options, cpu=cpu)

    return Step(tree.path.parent, [checkpoint, data], options.recorded(), build, resumable=True)


def paths_step(config: LanguageModelExperiment, tree: Tree) -> Step:
    """The step that chooses paths of an induced tree for the unseen domains."""
    evaluation = evaluation_of(config)
    options = PathChoice(num_paths=max(evaluation.num_paths), sequences=evaluation.sequences, seed=config.seed)
    checkpoint = lm_checkpoint(config, lm_runs_of(config, str(tree.system))[0])
    data = config.work_dir / UNSEEN_DATA_DIR

    def build(folder: Path) -> None:
        # Loads fairseq.
        from fairseq_ext.induction.choose_paths import write_paths

        write_paths(folder, checkpoint, tree.path.parent, data, options, cpu=evaluation.cpu)

    inputs = [checkpoint, tree.path.parent, data]
    return Step(config.work_dir / "paths" / tree.name, inputs, options.recorded(), build)


def _induction_of(config: LanguageModelExperiment, tree: Tree) -> Induction:
    where = f"{config.path}: tree: {tree.name}"
    given: Mapping[str, int] = {} if "seed" in tree.options else {"seed": config.seed}
    options: Induction = read_section(Induction, tree.options, where, given=given)
    try:
        options.check()
    except InputError as error:
        raise InputError(f"{where}: {error}") from None
    return options
