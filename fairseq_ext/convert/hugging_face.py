"""Files of a Hugging Face directory: validated JSON, and weights read as data only."""

from __future__ import annotations

import pickle
import struct
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor

from fairseq_ext.base.errors import InputError
from fairseq_ext.modules.pretrained import CONFIG_FILE, LARGEST_SIZE, parts_of, weight_file

_DAMAGED = (
    *(SafetensorError, pickle.UnpicklingError, zipfile.BadZipFile, struct.error, OSError, EOFError, RuntimeError),
    *(ValueError, KeyError, TypeError, AttributeError, IndexError, MemoryError, OverflowError),
)


def check_fixed(content: Mapping[str, Any], fixed: Mapping[str, Any], path: Path) -> None:
    """Check keys for which only one value is supported; a missing key has that value."""
    for key, value in fixed.items():
        if content.get(key, value) != value:
            raise InputError(f"{path}: {key} is {content[key]!r}; only models with {value!r} can be converted")


def read_size(content: Mapping[str, Any], key: str, path: Path) -> int:
    """Return a size of a model, a positive integer."""
    value = content.get(key)
    if type(value) is not int or not 0 < value <= LARGEST_SIZE:
        raise InputError(f"{path}: {key}: expected a whole number from 1 to {LARGEST_SIZE}, got {value!r}")
    return value


def read_rate(content: Mapping[str, Any], key: str, path: Path) -> float:
    """Return a dropout rate; Hugging Face's default is 0.1."""
    value = content.get(key, 0.1)
    if type(value) not in (int, float) or not 0 <= value < 1:
        raise InputError(f"{path}: {key}: expected a rate from 0 to 1, got {value!r}")
    return float(value)


def input_files(folder: Path, texts: Sequence[str]) -> list[Path]:
    """Return the files that an import reads: configuration, weights, and the existing files of ``texts``."""
    paths = [folder / name for name in (CONFIG_FILE, *texts)]
    weights = weight_file(folder)
    return [*(path for path in paths if path.is_file()), *dict.fromkeys([weights, *parts_of(weights)])]


def load_weights(folder: Path) -> dict[str, Tensor]:
    """Load all tensors by name, without executing code from the files."""
    weights: dict[str, Tensor] = {}
    for part in parts_of(weight_file(folder)):
        weights |= _load(part)
    return weights


def _load(path: Path) -> dict[str, Tensor]:
    try:
        if path.suffix == ".safetensors":
            weights = load_file(path)
        else:
            weights = torch.load(path, map_location="cpu", weights_only=True)
    except _DAMAGED as error:
        reason = " ".join((str(error) or type(error).__name__).split())[:200]
        raise InputError(f"{path}: is damaged, cut off, or contains more than weights ({reason})") from None
    if not isinstance(weights, dict) or not all(
        isinstance(name, str) and isinstance(value, Tensor) for name, value in weights.items()
    ):
        raise InputError(f"{path}: is not a file of weights; expected tensors by name")
    return weights
