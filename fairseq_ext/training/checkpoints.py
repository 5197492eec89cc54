"""Checkpoints: read safely, checked before use, and how a base checkpoint becomes an adapted one."""

from __future__ import annotations

import argparse
import collections
import functools
import os
import pickle
import zipfile
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import torch
from fairseq import checkpoint_utils
from fairseq.distributed.utils import _TensorPlaceholder
from fairseq.file_io import PathManager
from numpy._core.multiarray import _reconstruct, scalar
from omegaconf import DictConfig, ListConfig
from omegaconf.base import ContainerMetadata, Metadata
from omegaconf.nodes import AnyNode
from torch import Tensor, nn

from fairseq_ext.errors import InputError
from fairseq_ext.training.freezing import is_adapter_key

# All that a fairseq checkpoint may hold beyond tensors and plain containers. None of these runs code.
ALLOWED_TYPES: list = [
    argparse.Namespace,  # the options of legacy models
    # --eval-bleu keeps its counts as arrays; numpy 1 wrote them under another name.
    _reconstruct, (_reconstruct, "numpy.core.multiarray._reconstruct"),
    scalar, (scalar, "numpy.core.multiarray.scalar"),
    np.ndarray, np.dtype, np.dtypes.Int64DType, np.dtypes.Float64DType,
    # Workers send each other checkpoints with the configuration and a placeholder for each tensor.
    DictConfig, ListConfig, AnyNode, ContainerMetadata, Metadata, Any,
    _TensorPlaceholder, collections.defaultdict, dict, list, int,
]  # fmt: skip


def load_checkpoints_safely() -> None:
    """Let ``torch.load`` with ``weights_only`` accept fairseq's checkpoints, and explain what it refuses.

    torch >= 2.6 unpickles only types on an allow-list. We add those that fairseq needs, and turn what is
    refused, truncated or foreign into one line that names the file.
    """
    torch.serialization.add_safe_globals(ALLOWED_TYPES)
    if not hasattr(checkpoint_utils.load_checkpoint_to_cpu, "__wrapped__"):
        checkpoint_utils.load_checkpoint_to_cpu = _explaining(checkpoint_utils.load_checkpoint_to_cpu)


def copy_checkpoints_whole() -> None:
    """Let fairseq's copy of a checkpoint appear when it is complete, as the checkpoint itself does.

    It saves one and copies that over ``checkpoint_last.pt``, where training goes on from; a kill within the copy would
    leave neither the old nor the new one.
    """
    if not hasattr(PathManager.copy, "__wrapped__"):
        PathManager.copy = staticmethod(_copying_whole(PathManager.copy))


def _copying_whole(copy: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(copy)
    def copy_whole(src_path: str, dst_path: str, overwrite: bool = False) -> Any:
        if not PathManager.supports_rename(dst_path):
            return copy(src_path, dst_path, overwrite)
        copied = copy(src_path, f"{dst_path}.tmp", overwrite)
        PathManager.rename(f"{dst_path}.tmp", dst_path)
        return copied

    return copy_whole


def _explaining(load: Callable[..., dict]) -> Callable[..., dict]:
    @functools.wraps(load)
    def load_or_explain(path: str, *args: Any, **kwargs: Any) -> dict:
        require_weights_only()
        try:
            state = load(path, *args, **kwargs)
        except FileNotFoundError:
            raise InputError(f"{path}: no such checkpoint; give the path of a .pt file") from None
        except pickle.UnpicklingError as error:
            raise InputError(
                f"{path}: refused, because it holds more than weights and options ({_reason(error)}); "
                "use a checkpoint that fairseq wrote"
            ) from None
        except (
            OSError,
            EOFError,
            RuntimeError,
            ValueError,
            KeyError,
            TypeError,
            AttributeError,
            IndexError,
            zipfile.BadZipFile,
            UnicodeDecodeError,
        ) as error:
            raise InputError(
                f"{path}: not a readable checkpoint ({_reason(error)}); it is truncated or of another kind"
            ) from None
        if not isinstance(state, dict) or "model" not in state:
            raise InputError(f"{path}: no fairseq checkpoint: it has no 'model' entry")
        return state

    return load_or_explain


def require_weights_only() -> None:
    """Refuse to go on where the environment switches torch's protection off.

    Raises:
        InputError: if ``TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD`` is set to a true value.
    """
    if os.environ.get("TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD", "0").lower() in {"1", "y", "yes", "true"}:
        raise InputError("TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD would run code hidden in checkpoints; unset it")


def _reason(error: BaseException) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return next((line for line in lines if "global" in line.lower()), lines[0] if lines else type(error).__name__)


def add_fresh_adapters(model: nn.Module, state_dict: dict[str, Tensor]) -> None:
    """Complete the state dict of a base model with this model's own, fresh adapters, in place.

    Only a checkpoint without any adapter is a base model, and only one without any gate has plain
    adapters to put gates on. One that has some but not all of either is damaged or of another shape, and
    filling its gaps would hide that.

    Raises:
        InputError: listing the entries that are missing.
    """
    own = {name: value for name, value in model.state_dict().items() if is_adapter_key(name)}
    present = {name for name in state_dict if is_adapter_key(name)}
    if not present:
        state_dict.update(own)
    elif not any(".router." in name for name in present):
        state_dict.update({name: value for name, value in own.items() if ".router." in name})
    require_entries(state_dict, own, "adapters")


def require_entries(state_dict: dict[str, Tensor], own: Iterable[str], what: str) -> None:
    """Refuse a checkpoint that has only some of what this model adds to its base.

    Args:
        state_dict: of the checkpoint.
        own: the entries that the model adds.
        what: these are.

    Raises:
        InputError: listing the entries that are missing.
    """
    missing = sorted(set(own) - state_dict.keys())
    if missing:
        raise InputError(
            f"the checkpoint has {what} but lacks {len(missing)} entries of this model's: {some_of(missing)}; "
            f"use the options it was trained with, or start from a base checkpoint without {what}"
        )


def check_fit(
    model: nn.Module, state_dict: dict[str, Tensor], prefix: str, _metadata: dict, strict: bool, *_: Any
) -> None:
    """A load-state-dict pre-hook: refuse, in one line, a checkpoint that is not of this model.

    Raises:
        InputError: naming entries that are missing, unknown or of another shape.
    """
    if prefix or not strict:
        return
    own = model.state_dict()
    problems = []
    # A language model has no encoder, RoBERTa's lies deeper.
    for key, kind in (
        ("encoder.embed_tokens.weight", "source symbols"),
        ("encoder.sentence_encoder.embed_tokens.weight", "symbols"),
        ("decoder.embed_tokens.weight", "symbols"),
    ):
        if key in own.keys() & state_dict.keys():
            rows, own_rows = len(state_dict[key]), len(own[key])
            if rows != own_rows:
                problems.append(f"it knows {rows} {kind}, the data's dictionary {own_rows}: wrong dictionary")
            break
    misshapen = [n for n in sorted(own.keys() & state_dict.keys()) if own[n].shape != state_dict[n].shape]
    for what, names in [
        ("missing", sorted(own.keys() - state_dict.keys())),
        ("unknown", sorted(state_dict.keys() - own.keys())),
        ("of another shape", misshapen),
    ]:
        if names:
            problems.append(f"{len(names)} entries {what}: {some_of(names)}")
    if problems:
        raise InputError(f"the checkpoint does not fit this model: {'; '.join(problems)}")


def some_of(names: Iterable[str], limit: int = 3) -> str:
    """The first names, separated by commas, for a message."""
    names = list(names)
    return ", ".join(names[:limit]) + (", …" if len(names) > limit else "")
