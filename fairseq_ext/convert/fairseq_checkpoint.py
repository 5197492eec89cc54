"""A checkpoint of fairseq's for a model that it has not trained yet."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from fairseq import options
from fairseq.dataclass.utils import convert_namespace_to_omegaconf
from omegaconf import OmegaConf
from torch import Tensor

from fairseq_ext.patches.checkpoints import save_checkpoint

MODEL_FILE = "model.pt"


def write_checkpoint(folder: Path, state: Mapping[str, Tensor], arguments: Sequence[str], criterion: str) -> None:
    """Write ``model.pt`` with all that fairseq looks for in a checkpoint.

    Args:
        folder: where to write.
        state: the model's.
        arguments: task, architecture and options as for ``fairseq-train``, without data.
        criterion: name of the class of the criterion, which a checkpoint's history has.
    """
    history = {
        "criterion_name": criterion,
        "optimizer_name": "FairseqAdam",
        "lr_scheduler_state": {},
        "num_updates": 0,
    }
    checkpoint = {
        "args": None,
        "cfg": _config(arguments),
        "model": dict(state),
        "criterion": {},
        "optimizer_history": [history],
        "task_state": {},
        "extra_state": {"train_iterator": {"epoch": 1, "iterations_in_epoch": 0}},
        "last_optimizer_state": None,
    }
    save_checkpoint(checkpoint, folder / MODEL_FILE)


def as_options(values: Mapping[str, Any]) -> list[str]:
    """Options of fairseq's commands, each with its value."""
    return [text for name, value in values.items() for text in (f"--{name}", str(value))]


def _config(arguments: Sequence[str]) -> dict[str, Any]:
    """The configuration that fairseq-train would have stored, as plain containers."""
    # The directory of the data is the user's own, whatever stands here.
    line = [".", "--optimizer", "adam", *arguments]
    with warnings.catch_warnings():
        # What fairseq's dependencies say of each other tells a user nothing.
        warnings.simplefilter("ignore")
        parsed = convert_namespace_to_omegaconf(options.parse_args_and_arch(options.get_training_parser(), line))
    plain: Any = OmegaConf.to_container(parsed, resolve=True, enum_to_str=True)
    return plain
