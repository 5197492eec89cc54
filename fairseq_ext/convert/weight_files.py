"""The files of a Hugging Face directory that hold weights, read without running anything that is in them."""

from __future__ import annotations

import pickle
import struct
import zipfile
from collections.abc import Mapping
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from fairseq_ext.convert.config_file import CONFIG_FILE, read_json
from fairseq_ext.inputs.errors import InputError
from fairseq_ext.patches.checkpoints import require_weights_only

# The first that is there is read; an index lists the files that a large model is cut into.
_WEIGHT_FILES = (
    "model.safetensors",
    "model.safetensors.index.json",
    "pytorch_model.bin",
    "pytorch_model.bin.index.json",
)
_DAMAGED = (
    *(SafetensorError, pickle.UnpicklingError, zipfile.BadZipFile, struct.error, OSError, EOFError, RuntimeError),
    *(ValueError, KeyError, TypeError, AttributeError, IndexError, MemoryError, OverflowError),
)


def weight_file(folder: Path) -> Path:
    """The file with the weights, or with the list of the files that have them.

    Raises:
        InputError: if there is none.
    """
    for name in _WEIGHT_FILES:
        if (folder / name).is_file():
            return folder / name
    raise InputError(f"{folder}: holds no weights; a model of Hugging Face's has {' or '.join(_WEIGHT_FILES[::2])}")


def weight_files(folder: Path) -> list[Path]:
    """All files that hold weights, the list of them included."""
    path = weight_file(folder)
    return [path, *(part for part in _parts(path) if part != path)]


def load_weights(folder: Path) -> dict[str, Tensor]:
    """Load all tensors by their names, as they are.

    Raises:
        InputError: naming the file that is missing, damaged or holds more than weights.
    """
    weights: dict[str, Tensor] = {}
    for part in _parts(weight_file(folder)):
        weights |= _load(part)
    return weights


def save_weights(folder: Path, weights: Mapping[str, Tensor]) -> None:
    """Write ``model.safetensors``."""
    named = {name: value.contiguous() for name, value in weights.items()}
    save_file(named, folder / _WEIGHT_FILES[0], metadata={"format": "pt"})


def count_layers(weights: Mapping[str, Tensor], prefix: str) -> int:
    """The number of layers; ``prefix`` is what stands before a layer's number in the names of its tensors."""
    return len({name.removeprefix(prefix).split(".")[0] for name in weights if name.startswith(prefix)})


def check_num_layers(weights: Mapping[str, Tensor], prefix: str, num_layers: int, where: str) -> None:
    """Check that there are as many layers as ``config.json`` says.

    It is done before a list of expected tensors is made, which a wrong number could make endless.

    Args:
        weights: by name.
        prefix: see :func:`count_layers`.
        num_layers: as it should be.
        where: the file, for the message.

    Raises:
        InputError: if there are more or fewer.
    """
    found = count_layers(weights, prefix)
    if found != num_layers:
        raise InputError(f"{where}: has {found} layers, but {CONFIG_FILE} says {num_layers}")


def check_weights(
    weights: Mapping[str, Tensor], expected: Mapping[str, tuple[int, ...]], where: str, model: str
) -> None:
    """Check that these are the tensors expected, in name and shape, and numbers.

    Args:
        weights: by name.
        expected: by name, the shape.
        where: the file, for messages.
        model: what it should be, for messages.

    Raises:
        InputError: naming the first tensor that is missing, unknown or of another shape.
    """
    for name, size in expected.items():
        if name not in weights:
            raise InputError(f"{where}: the tensor {name!r} is missing; it is not whole, or no plain {model}")
        value = weights[name]
        if tuple(value.shape) != size or not value.is_floating_point():
            raise InputError(
                f"{where}: {name!r} is {value.dtype} of shape {tuple(value.shape)}, expected numbers of shape {size}; "
                "model and options do not belong together"
            )
    for name in weights:
        if name not in expected:
            raise InputError(f"{where}: the tensor {name!r} is unknown; only plain {model} can be converted")


def check_tied(output: Tensor | None, embedding: Tensor, name: str, where: str) -> None:
    """Check that a model's output matrix, where its file has one, is its embedding.

    Raises:
        InputError: if it is not; ``name`` is the output's.
    """
    if output is not None and not torch.equal(output, embedding):
        raise InputError(f"{where}: {name!r} is not the embedding; only models with tied embeddings can be converted")


def _parts(path: Path) -> list[Path]:
    """The files with weights that an index lists, or the one file itself."""
    if not path.name.endswith(".index.json"):
        return [path]
    files = read_json(path).get("weight_map")
    if not isinstance(files, dict) or not files:
        raise InputError(f"{path}: lists no files; 'weight_map' should say where each tensor is")
    names = sorted({str(name) for name in files.values()})
    for name in names:
        # A list that someone else wrote must not lead out of the folder.
        if Path(name).name != name:
            raise InputError(f"{path}: {name!r} is no file name")
        if not (path.parent / name).is_file():
            raise InputError(f"{path.parent / name}: not found; {path.name} lists it")
    return [path.parent / name for name in names]


def _load(path: Path) -> dict[str, Tensor]:
    require_weights_only()
    try:
        if path.suffix == ".safetensors":
            weights = load_file(path)
        else:
            weights = torch.load(path, map_location="cpu", weights_only=True)
    except _DAMAGED as error:
        reason = " ".join((str(error) or type(error).__name__).split())[:200]
        raise InputError(f"{path}: damaged, cut off, or more than weights ({reason})") from None
    if not isinstance(weights, dict) or not all(
        isinstance(name, str) and isinstance(value, Tensor) for name, value in weights.items()
    ):
        raise InputError(f"{path}: expected tensors by name; it is no file of weights")
    return weights
