"""Safe reading of fairseq checkpoints: the contents are checked before fairseq builds anything from them."""

from __future__ import annotations

import argparse
import collections
import os
import pickle
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Any

import numpy as np
import torch
from fairseq import checkpoint_utils
from fairseq.distributed.utils import _TensorPlaceholder
from fairseq.file_io import PathManager
from fairseq.trainer import Trainer
from omegaconf import DictConfig, ListConfig
from omegaconf.base import ContainerMetadata, Metadata
from omegaconf.nodes import AnyNode
from torch import Tensor

from fairseq_ext.base.errors import InputError, input_error_in, is_environment
from fairseq_ext.patches import Patch, around, restoring
from fairseq_ext.patches.options import KINDS, NotLiteralError, check_options, forget_starting_files, plain_options

_NAMES = {"i8": np.int64, "f8": np.float64}


class PlainDType:
    """Stand-in for ``numpy.dtype`` that allows only int64 and float64."""

    def __init__(self, name: str, align: bool = False, copy: bool = True) -> None:
        if name not in _NAMES:
            raise pickle.UnpicklingError(f"an array of {name!r}")
        self.kind = np.dtype(_NAMES[name])

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        if tuple(state) != (3, "<", None, None, None, -1, -1, 0):
            raise pickle.UnpicklingError(f"an array of numbers of another form ({state})")


class PlainArray(np.ndarray):
    """Stand-in for ``numpy.ndarray``; it is pickled as a plain array."""

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        _, shape, dtype, is_fortran, data = state
        if not isinstance(dtype, PlainDType) or not isinstance(data, bytes):
            raise pickle.UnpicklingError("an array of objects")
        plain: Any = (1, shape, dtype.kind, bool(is_fortran), data)
        super().__setstate__(plain)

    def __reduce__(self) -> Any:
        return self.view(np.ndarray).__reduce__()


def empty_array(kind: type, shape: tuple[int, ...], code: bytes) -> PlainArray:
    """Stand-in for numpy's array constructor; the state follows."""
    return np.empty(0, np.int64).view(PlainArray)


def plain_scalar(dtype: PlainDType, data: bytes) -> Any:
    """Stand-in for numpy's scalar constructor."""
    if not isinstance(dtype, PlainDType) or not isinstance(data, bytes):
        raise pickle.UnpicklingError("a number of another form")
    return np.frombuffer(data, dtype.kind, count=1)[0]


# numpy 1 used another module name. Types also appear under the names of their own classes.
ARRAY_TYPES: list = [
    *((empty_array, f"numpy.{core}.multiarray._reconstruct") for core in ("_core", "core")),
    *((plain_scalar, f"numpy.{core}.multiarray.scalar") for core in ("_core", "core")),
    (PlainArray, "numpy.ndarray"),
    (PlainDType, "numpy.dtype"),
]


# All types allowed in a fairseq checkpoint besides tensors and plain containers. None of them runs code.
ALLOWED_TYPES: list = [
    argparse.Namespace,  # options of legacy models
    *ARRAY_TYPES,
    # Workers exchange checkpoints with the configuration and a placeholder for each tensor.
    DictConfig, ListConfig, AnyNode, ContainerMetadata, Metadata, Any,
    _TensorPlaceholder, collections.defaultdict, dict, list, int,
]  # fmt: skip
# fairseq versions of 2018 and 2019 stored training meters, which are not used.
_METERS = [f"fairseq.meters.{name}" for name in ("AverageMeter", "TimeMeter", "StopwatchMeter")]
# Plain data of a module besides its tensors (torch's `get_extra_state`); the module checks it.
_EXTRA_STATE = "_extra_state"
# fairseq's dynamic convolutions for CPUs neither initialise this bias nor, without an option, use it.
_UNUSED_BIAS = "conv_bias"
# Sections of the options of a checkpoint from which something is built when it is loaded.
_built: ContextVar[Sequence[str]] = ContextVar("_built", default=("model", "criterion"))


def allow_plain_types() -> None:
    """Let ``torch.load``, which unpickles only the types of a list, read the options in fairseq's checkpoints."""
    allowed = torch.serialization.get_safe_globals()
    if any(kind not in allowed for kind in ALLOWED_TYPES):
        restoring.callback(torch.serialization.add_safe_globals, allowed)
        restoring.callback(torch.serialization.clear_safe_globals)
        torch.serialization.add_safe_globals(ALLOWED_TYPES)


def check_stored_bytes(path: Path) -> None:
    """Verify the checksums in a checkpoint's archive, which torch does not check."""
    if not zipfile.is_zipfile(path):
        return  # formats before PyTorch 1.6 have no checksums
    with zipfile.ZipFile(path) as archive:
        damaged = archive.testzip()
    if damaged is not None:
        raise InputError(f"{path}: entry {damaged} is damaged; copy or download the file again")


def check_checkpoint(
    path: str | Path, overrides: Mapping[str, Any] | None = None, built: Sequence[str] = KINDS
) -> None:
    """Check a checkpoint without building anything from it; see :func:`~fairseq_ext.patches.options.check_options`."""
    with _one_line_errors(path):
        check_options(_read_state(path), overrides or {}, built)


def read_foreign_checkpoint(path: str | Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Return the weights of a checkpoint and the options of its model and task as plain values.

    Checkpoints of forks of fairseq are supported. Nothing is built from them.
    """
    with _one_line_errors(path), torch.serialization.safe_globals([(_Meter, name) for name in _METERS]):
        state = _read_state(path)
        return dict(state["model"]), plain_options(state)


class _Meter:
    """Stand-in for the training meters of old checkpoints."""


def save_checkpoint(content: Mapping[str, Any], path: Path) -> None:
    """Write a checkpoint.

    Raises:
        OSError: if the disk is full; without this, torch would raise an error about its archive.
    """
    try:
        with path.open("wb") as file:
            torch.save(content, file)
    except RuntimeError as error:
        if isinstance(error.__context__, OSError):
            raise error.__context__ from None
        raise


def _save(save: Callable[..., Any], content: Any, file: Any) -> Any:
    """End with one line if the disk is full; fairseq would try twice more, and print the tracebacks."""
    if isinstance(file, str):
        return save(content, file)
    try:
        return torch.save(content, file)
    except Exception as error:
        cause = error if isinstance(error, OSError) else error.__context__
        if not isinstance(cause, OSError) or not is_environment(cause):
            raise
        name = getattr(file, "name", "a checkpoint")
        raise InputError(f"{name}: cannot be written ({cause}); mend this, and run the command again") from None


def check_weights(weights: Mapping[Any, Any]) -> None:
    """Check that every entry is a plain, finite tensor."""
    for name, value in weights.items():
        last = name.rpartition(".")[2] if isinstance(name, str) else ""
        if last == _EXTRA_STATE:
            continue
        if not isinstance(name, str) or not isinstance(value, Tensor):
            raise InputError(f"its weight {name!r} is {type(value).__name__}, expected a tensor")
        if value.layout != torch.strided or value.is_quantized or value.device.type != "cpu":
            raise InputError(f"its weight {name!r} is not a plain tensor ({value.layout}, {value.dtype})")
        # An expanded tensor of one stored number can have any size, and checking it could take forever.
        if value.numel() * value.element_size() > value.untyped_storage().nbytes():
            raise InputError(f"its weight {name!r} declares {value.numel()} numbers, but fewer are stored")
        if value.is_floating_point() and last != _UNUSED_BIAS and not bool(torch.isfinite(value).all()):
            raise InputError(f"its weight {name!r} has entries that are not finite; its training diverged")


def _read_state(path: str | Path) -> dict[str, Any]:
    """Return all entries of a checkpoint, with checked weights."""
    state = _load(PathManager.get_local_path(str(path)))
    if not isinstance(state, dict) or not isinstance(state.get("model"), dict):
        raise InputError("not a fairseq checkpoint: no entry 'model' with weights")
    check_weights(state["model"])
    return state


def _load(path: str) -> Any:
    """Return all entries of a file. The weights of a zip archive are memory-mapped until they are checked."""
    if os.path.exists(path) and not os.path.isfile(path):
        raise InputError("not a regular file; give the path of a .pt file")
    return torch.load(path, map_location="cpu", weights_only=True, mmap=zipfile.is_zipfile(path))


@contextmanager
def _one_line_errors(path: str | Path) -> Iterator[None]:
    """Turn every error into an InputError that begins with the file's name."""
    try:
        yield
    except InputError as error:
        raise InputError(f"{path}: {error}") from None
    except FileNotFoundError:
        raise InputError(f"{path}: not found; give the path of a .pt file") from None
    except pickle.UnpicklingError as error:
        raise InputError(
            f"{path}: refused, because it holds more than weights and options ({_reason(error)}); "
            "use a checkpoint that fairseq wrote"
        ) from None
    # torch may raise any exception on a damaged file.
    except Exception as error:
        raise InputError(
            f"{path}: not a readable checkpoint ({_reason(error)}); it is truncated or has another format"
        ) from None


def _load_checked(
    load: Callable[..., dict], path: str, arg_overrides: Mapping[str, Any] | None = None, *args: Any, **kwargs: Any
) -> dict:
    check_checkpoint(path, arg_overrides, _built.get())
    try:
        state = load(path, arg_overrides, *args, **kwargs)
    # fairseq upgrades old checkpoints here without checking their contents.
    except Exception as error:
        raise InputError(f"{path}: not a readable checkpoint ({_reason(error)}); it has another format") from error
    forget_starting_files(state, arg_overrides or {})
    return state


def _build(
    load: Callable[..., Any],
    filenames: Sequence[str],
    arg_overrides: Any = None,
    task: Any = None,
    *more: Any,
    **by: Any,
) -> Any:
    built = KINDS if task is None else ("model", "criterion")
    with _building_only(built), _explaining(", ".join(map(str, filenames)), "cannot build a model from it"):
        return load(filenames, arg_overrides, task, *more, **by)


def _restore(load: Callable[..., Any], trainer: Trainer, filename: str, *args: Any, **kwargs: Any) -> Any:
    what = "cannot start training from it; --reset-optimizer starts with a fresh optimizer"
    with _building_only(()), _explaining(filename, what):
        return load(trainer, filename, *args, **kwargs)


@contextmanager
def _building_only(sections: Sequence[str]) -> Iterator[None]:
    token = _built.set(sections)
    try:
        yield
    finally:
        _built.reset(token)


@contextmanager
def _explaining(path: str, what: str) -> Iterator[None]:
    """Turn errors about options of wrong types into one line. The original exception is kept as the cause."""
    try:
        yield
    except NotLiteralError as error:
        raise InputError(f"{path}: {what}: {error}") from None
    except Exception as error:
        if input_error_in(error) is not None:
            raise
        raise InputError(f"{path}: {what}: {type(error).__name__}: {_reason(error)}") from error


def _reason(error: BaseException) -> str:
    """Return one line of an error, without torch's advice to disable the protection."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    found = next((line for line in lines if "global" in line.lower()), lines[0] if lines else type(error).__name__)
    found = "it is not a file of weights alone" if "weights_only" in found else found
    return found if len(found) <= 300 else f"{found[:300]}…"


# fairseq's loading functions check checkpoints first, and raise one-line errors with the file's name.
PATCHES: list[Patch] = [
    (checkpoint_utils, "_torch_persistent_save", around(_save)),
    (checkpoint_utils, "load_checkpoint_to_cpu", around(_load_checked)),
    (checkpoint_utils, "load_model_ensemble_and_task", around(_build)),
    (Trainer, "load_checkpoint", around(_restore)),
]
