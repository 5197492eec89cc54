"""Training the base model and the classifiers of an experiment, as steps."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from fairseq_ext.classifiers.training import task_arguments, task_choices
from fairseq_ext.engine.fairseq_cli import as_arguments
from fairseq_ext.engine.steps import Step
from fairseq_ext.experiments.classification.config import ClassificationExperiment
from fairseq_ext.experiments.classification.prepare import MASKED_LM_DIR, task_data
from fairseq_ext.inputs.errors import InputError
from fairseq_ext.recipes.config import Run
from fairseq_ext.recipes.train import best_checkpoint, train_step
from fairseq_ext.recipes.tune import steps_of_runs

BASE_ARGUMENTS = ("--task", "masked_language_modeling", "--criterion", "masked_lm")


def checkpoint_of(config: ClassificationExperiment, run: Run) -> Path:
    """The checkpoint of a run: what was trained, or what the file names."""
    return config.systems[run.system.name].checkpoint or best_checkpoint(config, run.name)


def training_steps(config: ClassificationExperiment, name: str) -> list[Step]:
    """The steps that train all runs of a system; none for a base that is there already.

    Raises:
        InputError: if the base's file is missing.
    """
    checkpoint, runs = config.systems[name].checkpoint, config.runs[name]
    if checkpoint is None:
        return steps_of_runs(config, runs, partial(training_step, config), runs)
    if not checkpoint.is_file():
        raise InputError(
            f"{config.path}: train: systems: {name}: checkpoint: no file {checkpoint}; a RoBERTa "
            "is imported by scripts/import_roberta.py"
        )
    return []


def training_step(config: ClassificationExperiment, run: Run) -> Step:
    """The step that trains one run, of a base or for a task, with the values that its system has."""
    is_base = run.domain is None
    inputs = [run.system.data or config.work_dir / MASKED_LM_DIR if is_base else task_data(config, str(run.domain))]
    arguments = [*(BASE_ARGUMENTS if is_base else ()), "--seed", str(run.seed), "--no-epoch-checkpoints"]
    if start := config.start_of(run):
        inputs.append(checkpoint_of(config, start))
        arguments += ["--finetune-from-model", str(inputs[-1])]
    arguments += as_arguments(run.system.options)
    return train_step(
        config,
        run,
        inputs,
        arguments,
        {"system": run.system.options, "seed": run.seed, "task": run.domain},
        foreseen=() if is_base else as_arguments(task_choices(str(run.domain), run.system.options)),
        derived=tuple if is_base else partial(task_arguments, inputs[0], str(run.domain), run.system.options),
    )
