"""What fairseq-train has to be told of a task, and how long a training is."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fairseq_ext.classifiers.task_data import FIRST, SECOND, TaskFacts, read_task_facts
from fairseq_ext.engine.fairseq_cli import as_arguments, option_of
from fairseq_ext.engine.processes import this_process

SCHEDULER = "polynomial_decay"
_WARM_UP = 0.1  # of the updates: Houlsby et al. (2019) §3.1


def task_choices(name: str, chosen: Mapping[str, Any]) -> dict[str, Any]:
    """The options of a training for a task that its data have no part in."""
    options = {
        "task": "task_prediction",
        "criterion": "sentence_prediction",
        "classification-head-name": name,
        "init-token": FIRST,
        "shorten-method": "truncate",
        # Otherwise the last sentences of an epoch and of every set are left out.
        "required-batch-size-multiple": 1,
    }
    return options | ({"lr-scheduler": SCHEDULER} if option_of(chosen, "lr-scheduler") in (None, SCHEDULER) else {})


def task_arguments(data: Path, name: str, chosen: Mapping[str, Any]) -> list[str]:
    """The options that follow from a task and the size of its data."""
    facts = read_task_facts(data)
    options = task_choices(name, chosen) | {
        "num-classes": facts.num_classes,
        "regression-target": not facts.labels,
        "separator-token": SECOND if facts.num_inputs == 2 and not option_of(chosen, "token-types") else None,
    }
    if facts.labels:
        options |= {"best-checkpoint-metric": "accuracy", "maximize-best-checkpoint-metric": True}
    if "lr-scheduler" in options:
        updates = num_updates(facts, chosen)
        options |= {"total-num-update": updates, "warmup-updates": int(_WARM_UP * updates)}
    return as_arguments(options)


def num_updates(facts: TaskFacts, options: Mapping[str, Any], num_workers: int | None = None) -> int:
    """How many updates a training for a task has."""
    workers = num_workers or _num_workers(option_of(options, "cpu"), int(option_of(options, "cpu-processes") or 1))
    per_update = int(option_of(options, "batch-size")) * int(option_of(options, "update-freq") or 1) * workers
    per_epoch = -(-facts.counts["train"] // per_update)
    epochs, most = option_of(options, "max-epoch"), option_of(options, "max-update")
    limits = [int(epochs) * per_epoch] if epochs is not None else []
    return min([*limits, int(most)] if most is not None else limits)


def _num_workers(cpu: bool | None, cpu_processes: int) -> int:
    """The processes that fairseq starts or is started in."""
    import torch

    started, num_gpus = this_process().count, torch.cuda.device_count()
    if started > 1:
        return started
    return cpu_processes if cpu or not num_gpus else num_gpus
