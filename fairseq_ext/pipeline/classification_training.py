"""Training the base model and the classifiers of an experiment, as steps."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from fairseq_ext.engine.processes import this_process
from fairseq_ext.engine.steps import Step
from fairseq_ext.errors import InputError
from fairseq_ext.experiment.classification import roberta_start_of, roberta_systems_of
from fairseq_ext.experiment.classification_config import ClassificationExperiment
from fairseq_ext.experiment.runs import Run, option_of
from fairseq_ext.pipeline.fairseq_cli import as_arguments
from fairseq_ext.pipeline.training import best_checkpoint, system_dir, train_step
from fairseq_ext.preparation.classification_prepare import MASKED_LM_DIR, task_data
from fairseq_ext.preparation.task_data import FIRST, SECOND, TaskFacts, read_task_facts

BASE_ARGUMENTS = ("--task", "masked_lm", "--criterion", "masked_lm")
SCHEDULER = "polynomial_decay"
_WARM_UP = 0.1  # of the updates: Houlsby et al. (2019) §3.1


def roberta_checkpoint(config: ClassificationExperiment, run: Run) -> Path:
    """The checkpoint of a run: what was trained, or what the file names."""
    system = roberta_systems_of(config).get(run.system.name)
    return (system and system.checkpoint) or best_checkpoint(config, run.name)


def roberta_training_step(config: ClassificationExperiment, run: Run) -> Step | None:
    """The step that trains one run, of a base or for a task; None for a base that is there already.

    Raises:
        InputError: if that is not the case.
    """
    system = roberta_systems_of(config).get(run.system.name)
    if system is not None and system.checkpoint is not None:
        if not system.checkpoint.is_file():
            raise InputError(
                f"{config.path}: train: systems: {run.system.name}: checkpoint: no file {system.checkpoint}; a RoBERTa "
                "is imported by scripts/import_roberta.py"
            )
        return None
    is_base = run.domain is None
    inputs = [run.system.data or config.work_dir / MASKED_LM_DIR if is_base else task_data(config, str(run.domain))]
    arguments = [*(BASE_ARGUMENTS if is_base else ()), "--seed", str(run.seed), "--no-epoch-checkpoints"]
    if start := roberta_start_of(config, run):
        inputs.append(roberta_checkpoint(config, start))
        arguments += ["--finetune-from-model", str(inputs[-1])]
    arguments += as_arguments(run.system.options)
    return train_step(
        system_dir(config, run.name),
        inputs,
        arguments,
        {"system": run.system.options, "seed": run.seed, "task": run.domain},
        derived=tuple if is_base else partial(task_arguments, inputs[0], run),
    )


def task_arguments(data: Path, run: Run) -> list[str]:
    """The options that follow from a task and the size of its data."""
    facts, name = read_task_facts(data), str(run.domain)
    options: dict[str, Any] = {
        "task": "sentence_prediction",
        "criterion": "sentence_prediction",
        "classification-head-name": name,
        "num-classes": facts.num_classes,
        "regression-target": not facts.labels,
        "init-token": FIRST,
        "separator-token": SECOND if facts.num_inputs == 2 else None,
        "shorten-method": "truncate",
        # Otherwise the last sentences of an epoch and of every set are left out.
        "required-batch-size-multiple": 1,
    }
    if facts.labels:
        options |= {"best-checkpoint-metric": "accuracy", "maximize-best-checkpoint-metric": True}
    if option_of(run.system.options, "lr-scheduler") in (None, SCHEDULER):
        updates = num_updates(facts, run.system.options)
        options |= {"lr-scheduler": SCHEDULER, "total-num-update": updates, "warmup-updates": int(_WARM_UP * updates)}
    return as_arguments(options)


def num_updates(facts: TaskFacts, options: Mapping[str, Any], num_workers: int | None = None) -> int:
    """How many updates a training for a task has.

    Args:
        facts: of its data.
        options: fairseq-train's: ``max-epoch`` or ``max-update``, ``batch-size``, ``update-freq``.
        num_workers: processes that share a batch's work; None finds it out.
    """
    workers = num_workers or _num_workers(option_of(options, "cpu"))
    per_update = int(option_of(options, "batch-size")) * int(option_of(options, "update-freq") or 1) * workers
    per_epoch = -(-facts.counts["train"] // per_update)
    epochs, most = option_of(options, "max-epoch"), option_of(options, "max-update")
    limits = [int(epochs) * per_epoch] if epochs is not None else []
    return min([*limits, int(most)] if most is not None else limits)


def _num_workers(cpu: bool | None) -> int:
    """The processes that fairseq starts or is started in."""
    import torch

    return this_process().count if cpu or this_process().count > 1 else max(1, torch.cuda.device_count())
