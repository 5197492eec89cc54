"""A converted model in fairseq: whether its weights fit its architecture, and its checkpoint."""

from __future__ import annotations

import warnings
from argparse import Namespace
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from fairseq import options
from fairseq.data import Dictionary
from fairseq.dataclass.utils import convert_namespace_to_omegaconf
from fairseq.models import ARCH_MODEL_REGISTRY
from omegaconf import OmegaConf
from torch import Tensor
from torch.overrides import TorchFunctionMode

import fairseq_ext.registration  # noqa: F401  the architectures that are built
from fairseq_ext.inputs.errors import InputError
from fairseq_ext.models.checkpoints import check_fit
from fairseq_ext.patches.checkpoints import save_checkpoint

MODEL_FILE = "model.pt"
_SPECIAL = 4  # symbols that every dictionary of fairseq begins with


def as_options(values: Mapping[str, Any]) -> list[str]:
    """Return options of fairseq's commands; a boolean is a flag that is given or left out."""
    line = []
    for name, value in values.items():
        flag = f"--{name.replace('_', '-')}"
        line += ([flag] if value else []) if isinstance(value, bool) else [flag, str(value)]
    return line


def build_model(arguments: Sequence[str], symbols: Sequence[int], domains: Sequence[str] = ()) -> Any:
    """Build a model.

    Args:
        arguments: task, architecture and options as for ``fairseq-train``, without data.
        symbols: sizes of its dictionaries: one, or source and target; equal sizes are one dictionary.
        domains: the names of its adapters.
    """
    return _built(_parsed(arguments).model, symbols, domains=list(domains))


def build_without_weights(config: Any, symbols: Sequence[int]) -> Any:
    """Build a model of the options that a checkpoint has of it, whose tensors have shapes alone."""
    with torch.device("meta"), _StayingOnDevice():
        return _built(config, symbols)


def _built(config: Any, symbols: Sequence[int], **of_task: Any) -> Any:
    source, target = (_dictionary(size) for size in (symbols[0], symbols[-1]))
    if len(set(symbols)) == 1:
        target = source
    task = Namespace(source_dictionary=source, target_dictionary=target, dictionary=source, **of_task)
    return ARCH_MODEL_REGISTRY[config._name].build_model(config, task)


def check_shapes(
    state: Mapping[str, Tensor], arguments: Sequence[str], symbols: Sequence[int], domains: Sequence[str] = ()
) -> None:
    """Check that a model of these options has the same entries, of the same shapes; see :func:`build_model`."""
    try:
        # Without memory for weights: none is computed with.
        with torch.device("meta"), _StayingOnDevice():
            model = build_model(arguments, symbols, domains)
    except (ArithmeticError, AssertionError, RuntimeError, ValueError) as error:
        raise InputError(f"its options make no model ({str(error) or type(error).__name__})") from None
    upgraded = dict(state)
    model.upgrade_state_dict(upgraded)
    check_fit(model, upgraded, "", {}, True)


def write_checkpoint(folder: Path, state: Mapping[str, Tensor], arguments: Sequence[str], criterion: str) -> None:
    """Write ``model.pt`` with all that fairseq looks for in a checkpoint."""
    history = {
        "criterion_name": criterion,
        "optimizer_name": "FairseqAdam",
        "lr_scheduler_state": {},
        "num_updates": 0,
    }
    config = OmegaConf.to_container(_parsed(arguments), resolve=True, enum_to_str=True)
    checkpoint = {
        "args": None,
        "cfg": config,
        "model": dict(state),
        "criterion": {},
        "optimizer_history": [history],
        "task_state": {},
        "extra_state": {"train_iterator": {"epoch": 1, "iterations_in_epoch": 0}},
        "last_optimizer_state": None,
    }
    save_checkpoint(checkpoint, folder / MODEL_FILE)


class _StayingOnDevice(TorchFunctionMode):
    """Let ``cpu()``, which RoBERTa's initialisation calls, do nothing: tensors on ``meta`` have no data."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return args[0] if func is Tensor.cpu else func(*args, **(kwargs or {}))


def _parsed(arguments: Sequence[str]) -> Any:
    """The configuration that ``fairseq-train`` makes of options."""
    # The data directory is the user's own, whatever stands here.
    line = [".", "--optimizer", "adam", *arguments]
    with warnings.catch_warnings():
        # What fairseq's dependencies say of each other tells a user nothing.
        warnings.simplefilter("ignore")
        return convert_namespace_to_omegaconf(options.parse_args_and_arch(options.get_training_parser(), line))


def _dictionary(size: int) -> Dictionary:
    """A dictionary of a size; what its symbols stand for does not matter."""
    dictionary = Dictionary()
    for number in range(size - _SPECIAL):
        dictionary.add_symbol(f"symbol{number}")
    return dictionary
