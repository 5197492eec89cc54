"""Input of fairseq-train for a task: its data, its options, and the number of updates."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from fairseq_ext.base.fairseq_cli import as_arguments, option_of
from fairseq_ext.base.jobs import THIS_MACHINE
from fairseq_ext.base.processes import this_process
from fairseq_ext.classifiers.task_split import FIRST, LABEL, SECOND, TASK_FILE, TaskFacts, read_task_facts, set_path
from fairseq_ext.data.binarise import binarise_files
from fairseq_ext.text.encoders import encode_texts
from fairseq_ext.text.subwords import DICT_FILE
from fairseq_ext.text.text_files import stream_lines, write_lines

SCHEDULER = "polynomial_decay"
_WARM_UP = 0.1  # share of the updates: Houlsby et al. (2019) §3.1
_PIECES = ".pieces"  # temporary folder of encoded text


def binarise_task(folder: Path, texts: Path, subwords: Path, splits: Sequence[str]) -> None:
    """Binarise a task's sets to a data directory of fairseq's ``sentence_prediction``."""
    facts = read_task_facts(texts)
    pieces, dictionary = folder / _PIECES, subwords / DICT_FILE
    encode_texts(pieces, texts, subwords, [(part, role) for part in facts.inputs for role in splits], THIS_MACHINE)
    for part in facts.inputs:
        _binarise_part(folder, part, pieces, dictionary, splits)
    shutil.rmtree(pieces)
    if facts.labels:
        write_lines(folder / LABEL / DICT_FILE, (f"{label} 1" for label in facts.labels))
        _binarise_part(folder, LABEL, texts, folder / LABEL / DICT_FILE, splits)
    else:
        for role in splits:
            write_lines(folder / LABEL / f"{role}.label", stream_lines(set_path(texts, LABEL, role)))
    shutil.copyfile(texts / TASK_FILE, folder / TASK_FILE)


def _binarise_part(folder: Path, part: str, texts: Path, dictionary: Path, splits: Sequence[str]) -> None:
    files = [(f"{part}/{role}.txt", f"{part}/{role}") for role in splits]
    binarise_files(folder, texts, [dictionary], files, THIS_MACHINE)
    target = folder / part / DICT_FILE
    if target != dictionary:
        shutil.copyfile(dictionary, target)


def task_choices(name: str, chosen: Mapping[str, Any]) -> dict[str, Any]:
    """Return the training options of a task that do not depend on its data."""
    options = {
        "task": "task_prediction",
        "criterion": "sentence_prediction",
        "classification-head-name": name,
        "init-token": FIRST,
        "shorten-method": "truncate",
        # A larger multiple would omit the last sentences of an epoch and of each set.
        "required-batch-size-multiple": 1,
    }
    return options | ({"lr-scheduler": SCHEDULER} if option_of(chosen, "lr-scheduler") in (None, SCHEDULER) else {})


def task_arguments(data: Path, name: str, chosen: Mapping[str, Any]) -> list[str]:
    """Return the training options that depend on a task and the size of its data, as arguments."""
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
    """Return the number of updates of a training run."""
    workers = num_workers or _num_workers(option_of(options, "cpu"), int(option_of(options, "cpu-processes") or 1))
    per_update = int(option_of(options, "batch-size")) * int(option_of(options, "update-freq") or 1) * workers
    per_epoch = -(-facts.counts["train"] // per_update)
    epochs, most = option_of(options, "max-epoch"), option_of(options, "max-update")
    limits = [int(epochs) * per_epoch] if epochs is not None else []
    return min([*limits, int(most)] if most is not None else limits)


def _num_workers(cpu: bool | None, cpu_processes: int) -> int:
    """Return the number of processes that fairseq starts or is started in."""
    import torch

    started, num_gpus = this_process().count, torch.cuda.device_count()
    if started > 1:
        return started
    return cpu_processes if cpu or not num_gpus else num_gpus
