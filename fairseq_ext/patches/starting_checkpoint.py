"""A training that is to start from a checkpoint does not start from nothing.

fairseq takes a ``--restore-file`` that is not there, and a ``--finetune-from-model`` or ``--continue-once`` that is a
directory, for a training that has just begun; it does not compare the vocabulary of a checkpoint with the data's; and
it adds an update to a training that had its last one.
"""

from __future__ import annotations

import functools
import math
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from fairseq import checkpoint_utils
from fairseq.file_io import PathManager

from fairseq_ext.data.vocabulary_memory import VocabularyMemory
from fairseq_ext.inputs.errors import InputError
from fairseq_ext.training.cpu_steps import StepMemory

# fairseq's default, which stands for the training's own, if there is one yet.
_OWN = "checkpoint_last.pt"


def require_starting_checkpoints() -> None:
    """Let fairseq's trainings refuse a start that is no file."""
    if not hasattr(checkpoint_utils.load_checkpoint, "__wrapped__"):
        checkpoint_utils.load_checkpoint = _checking(checkpoint_utils.load_checkpoint)


def _checking(load_checkpoint: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(load_checkpoint)
    def check_and_load(cfg: Any, trainer: Any, **kwargs: Any) -> Any:
        suffix = trainer.checkpoint_suffix or ""
        if cfg.restore_file != _OWN:
            _require_file("--restore-file", cfg.restore_file.replace(".pt", f"{suffix}.pt"))
        for option in ("finetune_from_model", "continue_once"):
            if (path := getattr(cfg, option, None)) is not None:
                _require_file(f"--{option.replace('_', '-')}", path)
        with _vocabulary_checked(trainer.task) as remembered:
            found = load_checkpoint(cfg, trainer, **kwargs)
        if trainer.get_num_updates() and isinstance(trainer.task, StepMemory):
            trainer.task.resume_step(remembered)
        _end_if_complete(trainer)
        return found

    return check_and_load


def _end_if_complete(trainer: Any) -> None:
    """Train no more if ``--max-update`` is reached; fairseq looks only after the next update."""
    options, done = trainer.cfg.optimization, trainer.get_num_updates()
    if 0 < options.max_update <= done:
        print(f"the checkpoint has all updates of --max-update {options.max_update}: nothing to train", file=sys.stderr)
        options.stop_min_lr = math.inf  # which fairseq looks at before


@contextmanager
def _vocabulary_checked(task: Any) -> Iterator[dict[str, Any]]:
    """Let the task see what a checkpoint kept of the task it was trained with, as fairseq does only in inference.

    Yields:
        What it kept, once it is loaded.
    """
    remembered: dict[str, Any] = {}
    load = checkpoint_utils.load_checkpoint_to_cpu

    def load_and_check(*args: Any, **kwargs: Any) -> dict[str, Any]:
        state = load(*args, **kwargs)
        remembered.update(state.get("task_state") or {})
        if isinstance(task, VocabularyMemory):
            task.check_vocabulary(remembered)
        return state

    checkpoint_utils.load_checkpoint_to_cpu = load_and_check
    try:
        yield remembered
    finally:
        checkpoint_utils.load_checkpoint_to_cpu = load


def _require_file(option: str, path: str) -> None:
    if not PathManager.isfile(path):
        raise InputError(f"{option} {path}: no such file; give the path of a checkpoint, a .pt file")
