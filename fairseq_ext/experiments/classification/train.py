"""Training the base model and the classifiers of an experiment, as steps."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import groupby
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
    system = config.systems.get(run.system.name)
    return (system and system.checkpoint) or best_checkpoint(config, run.name)


def training_steps(config: ClassificationExperiment, runs: Sequence[Run]) -> list[Step]:
    """The steps that train runs, those of one system or of the sweep; none for a base that is there already.

    Raises:
        InputError: if that is not the case.
    """
    steps = []
    for name, group in groupby(runs, lambda run: run.system.name):
        of_system = list(group)
        system = config.systems.get(name)
        if system is None or system.checkpoint is None:
            steps += steps_of_runs(config, of_system, partial(training_step, config), config.siblings(of_system[0]))
        elif not system.checkpoint.is_file():
            raise InputError(
                f"{config.path}: train: systems: {name}: checkpoint: no file {system.checkpoint}; a RoBERTa "
                "is imported by scripts/import_roberta.py"
            )
    return steps


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
