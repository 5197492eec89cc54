"""Checkpoints are looked through before fairseq makes anything of them: what they hold is data, and fits together."""

from __future__ import annotations

import argparse
import collections
import functools
import os
import pickle
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from fairseq import checkpoint_utils
from fairseq.distributed.utils import _TensorPlaceholder
from fairseq.file_io import PathManager
from fairseq.trainer import Trainer
from omegaconf import DictConfig, ListConfig
from omegaconf.base import ContainerMetadata, Metadata
from omegaconf.nodes import AnyNode
from torch import Tensor

from fairseq_ext.inputs.errors import InputError, input_error_in
from fairseq_ext.patches.plain_arrays import ARRAY_TYPES
from fairseq_ext.patches.saved_options import check_options, forget_embedding_files, plain_options
from fairseq_ext.patches.saved_weights import check_weights
from fairseq_ext.patches.weights_only import require_weights_only

# All that a fairseq checkpoint may hold beyond tensors and plain containers. None of these runs code.
ALLOWED_TYPES: list = [
    argparse.Namespace,  # the options of legacy models
    *ARRAY_TYPES,
    # Workers send each other checkpoints with the configuration and a placeholder for each tensor.
    DictConfig, ListConfig, AnyNode, ContainerMetadata, Metadata, Any,
    _TensorPlaceholder, collections.defaultdict, dict, list, int,
]  # fmt: skip


def load_checkpoints_safely() -> None:
    """Let ``torch.load`` with ``weights_only`` accept fairseq's checkpoints, and look through them first.

    torch >= 2.6 unpickles only types on an allow-list. We add those that fairseq needs, and turn what is
    refused, truncated, foreign or unfit into one line that names the file.
    """
    torch.serialization.add_safe_globals(ALLOWED_TYPES)
    for place, name, change in (
        (checkpoint_utils, "load_checkpoint_to_cpu", _checking),
        (checkpoint_utils, "load_model_ensemble_and_task", _building),
        (Trainer, "load_checkpoint", _restoring),
    ):
        function = getattr(place, name)
        if not hasattr(function, "__wrapped__"):
            setattr(place, name, functools.wraps(function)(change(function)))


def check_checkpoint(path: str | Path, overrides: Mapping[str, Any] | None = None) -> None:
    """Look through a checkpoint without making anything of it.

    Args:
        path: of the file.
        overrides: options that replace those of the checkpoint; the user's own, they are not looked at.

    Raises:
        InputError: in one line that names the file, if it holds more than numbers and plain options, names what
            nothing here needs, or its parts do not fit together.
    """
    with _in_one_line(path):
        state = _read_state(path)
        check_options(state, overrides or {})
        _check_progress(state)


def read_foreign_checkpoint(path: str | Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """The weights and the options of a checkpoint of fairseq's, or of a fork of it, of which nothing is built.

    Args:
        path: of the file.

    Returns:
        Its weights by name, and its options as plain values: the model's, under them the task's, by name.

    Raises:
        InputError: in one line that names the file, if it is no checkpoint, or holds more than weights and options.
    """
    with _in_one_line(path), torch.serialization.safe_globals([(_Meter, name) for name in _METERS]):
        state = _read_state(path)
        return dict(state["model"]), plain_options(state)


class _Meter:
    """Stands for what early versions of fairseq kept of the progress of a training; nobody reads it."""


_METERS = [f"fairseq.meters.{name}" for name in ("AverageMeter", "TimeMeter", "StopwatchMeter")]


def _read_state(path: str | Path) -> dict[str, Any]:
    """All entries of a checkpoint, the weights checked."""
    require_weights_only()
    state = _read(PathManager.get_local_path(str(path)))
    if not isinstance(state, dict) or not isinstance(state.get("model"), dict):
        raise InputError("no fairseq checkpoint: it has no 'model' entry with weights")
    check_weights(state["model"])
    return state


@contextmanager
def _in_one_line(path: str | Path) -> Iterator[None]:
    """Whatever is wrong with a checkpoint, say it in a line that begins with its name."""
    try:
        yield
    except InputError as error:
        raise InputError(f"{path}: {error}") from None
    except FileNotFoundError:
        raise InputError(f"{path}: no such checkpoint; give the path of a .pt file") from None
    except pickle.UnpicklingError as error:
        raise InputError(
            f"{path}: refused, because it holds more than weights and options ({_reason(error)}); "
            "use a checkpoint that fairseq wrote"
        ) from None
    # A damaged file can make torch raise anything.
    except Exception as error:
        raise InputError(
            f"{path}: not a readable checkpoint ({_reason(error)}); it is truncated or of another kind"
        ) from None


def _checking(load: Callable[..., dict]) -> Callable[..., dict]:
    def check_and_load(path: str, arg_overrides: Mapping[str, Any] | None = None, *args: Any, **kwargs: Any) -> dict:
        check_checkpoint(path, arg_overrides)
        try:
            state = load(path, arg_overrides, *args, **kwargs)
        # fairseq brings old checkpoints up to date here, and trusts what they hold.
        except Exception as error:
            raise InputError(f"{path}: not a readable checkpoint ({_reason(error)}); it is of another kind") from error
        forget_embedding_files(state, arg_overrides or {})
        return state

    return check_and_load


def _building(load: Callable[..., Any]) -> Callable[..., Any]:
    def build_or_explain(filenames: Sequence[str], *args: Any, **kwargs: Any) -> Any:
        with _explaining(", ".join(map(str, filenames)), "no model can be made of it"):
            return load(filenames, *args, **kwargs)

    return build_or_explain


def _restoring(load: Callable[..., Any]) -> Callable[..., Any]:
    def restore_or_explain(trainer: Trainer, filename: str, *args: Any, **kwargs: Any) -> Any:
        with _explaining(filename, "no training can start from it"):
            try:
                return load(trainer, filename, *args, **kwargs)
            except ValueError as error:
                if "size of optimizer's group" not in str(error):
                    raise
                raise InputError(
                    f"{filename}: its optimiser has other parameters than this training, as one of an earlier version "
                    "or with other options; --reset-optimizer goes on with a fresh one"
                ) from error

    return restore_or_explain


@contextmanager
def _explaining(path: str, what: str) -> Iterator[None]:
    """Options and records of the right names can still be of the wrong kinds. The cause stays on the exception."""
    try:
        yield
    except Exception as error:
        if input_error_in(error) is not None:
            raise
        raise InputError(f"{path}: {what}: {type(error).__name__}: {_reason(error)}") from error


def _read(path: str) -> Any:
    """All entries; weights stay in the file until they are looked at."""
    if not zipfile.is_zipfile(path):
        return torch.load(path, map_location="cpu", weights_only=True)
    with zipfile.ZipFile(path) as archive:
        entries = archive.infolist()
    # torch stores its entries as they are; a compressed one may unfold to any size.
    if any(entry.compress_type != zipfile.ZIP_STORED for entry in entries):
        raise InputError("its entries are compressed, as torch never writes them")
    if sum(entry.file_size for entry in entries) > os.path.getsize(path):
        raise InputError("its entries overlap, as torch never writes them")
    return torch.load(path, map_location="cpu", weights_only=True, mmap=True)


def _check_progress(state: Mapping[str, Any]) -> None:
    """What training goes on from, where it is there, has the form that fairseq reads."""
    for name, kind in (("extra_state", dict), ("optimizer_history", list), ("task_state", dict)):
        if name in state and not isinstance(state[name], kind):
            raise InputError(f"its entry {name!r} is {type(state[name]).__name__}, expected {kind.__name__}")
    if not isinstance(state.get("extra_state", {}).get("train_iterator"), dict | None):
        raise InputError("its entry 'extra_state' does not say where the training stood")
    history = state.get("optimizer_history", [{}])
    if not history or not all(isinstance(entry, dict) for entry in history):
        raise InputError("its entry 'optimizer_history' is no list of records")


def _reason(error: BaseException) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    found = next((line for line in lines if "global" in line.lower()), lines[0] if lines else type(error).__name__)
    return found if len(found) <= 300 else f"{found[:300]}…"
