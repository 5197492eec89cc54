"""Load models in the transformers format, without running their code, after checking their configuration."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import nn

from fairseq_ext.base import json_file
from fairseq_ext.base.errors import InputError
from fairseq_ext.base.json_file import values_in

CONFIG_FILE, GGUF = "config.json", ".gguf"
# Larger than any existing model's sizes, and small enough to multiply.
LARGEST_SIZE = 1 << 24
# In order of preference; an index lists the files of a sharded model.
WEIGHT_FILES = (
    "model.safetensors",
    "model.safetensors.index.json",
    "pytorch_model.bin",
    "pytorch_model.bin.index.json",
)


def hide_broken_torchaudio() -> None:
    """Make transformers work without torchaudio if it cannot be imported.

    fairseq requires torchaudio, and pip installs a build for GPUs by default. With a CPU build of torch, importing it
    fails, and so does importing any transformers model, even for text. ``scripts/env.sh`` leaves torchaudio out, but
    this may be another environment.
    """
    try:
        import torchaudio  # noqa: F401
    except (ImportError, OSError):
        # importlib, and hence transformers, treats this as "not installed".
        sys.modules["torchaudio"] = None  # type: ignore[assignment]


def read_json(path: Path) -> dict[str, Any]:
    """Read a JSON file of a Hugging Face directory; see :func:`fairseq_ext.base.json_file.read_json`."""
    return json_file.read_json(path, "give the folder of a Hugging Face model")


def weight_file(folder: Path) -> Path:
    """Return the file with the weights, or the index of a sharded model."""
    for name in WEIGHT_FILES:
        if (folder / name).is_file():
            return folder / name
    inner = [path.parent for name in WEIGHT_FILES for path in folder.glob(f"*/{name}")]
    remedy = f"; give {inner[0]}" if inner else ""  # older models of sentence-transformers
    raise InputError(f"{folder}: has no weights; a Hugging Face model has {' or '.join(WEIGHT_FILES[::2])}{remedy}")


def parts_of(path: Path) -> list[Path]:
    """Return the files that an index lists, or the single file."""
    if not path.name.endswith(".index.json"):
        return [path]
    files = read_json(path).get("weight_map")
    if not isinstance(files, dict) or not files:
        raise InputError(f"{path}: lists no files; weight_map must name the file of each tensor")
    names = sorted({str(name) for name in files.values()})
    for name in names:
        # A malicious index must not lead out of the folder.
        if Path(name).name != name:
            raise InputError(f"{path}: weight_map: {name!r} is not a file name")
        if not (path.parent / name).is_file():
            raise InputError(f"{path.parent / name}: not found; {path.name} lists it")
    return [path.parent / name for name in names]


def load_pretrained(
    auto_class: str, name: str | Path, where: str, *, is_trained: bool = False, **options: Any
) -> tuple[Any, Any]:
    """Load a tokenizer and a model.

    Args:
        is_trained: whether the model must have all its weights; others start with a new, random head.

    Returns:
        The tokenizer and the model.
    """
    import transformers

    if Path(name).is_dir():
        check_config(Path(name))
    safely = {"trust_remote_code": False, "local_files_only": options.pop("local_files_only", False)}
    with in_one_line(name, where):
        tokenizer = transformers.AutoTokenizer.from_pretrained(name, **safely)
        load = getattr(transformers, auto_class).from_pretrained
        safely |= {"use_safetensors": True, "ignore_mismatched_sizes": True, "output_loading_info": True}
        model, loading = load(name, **safely, **options)
    for key, found, expected in sorted(loading["mismatched_keys"]):
        raise InputError(
            f"{where}: {str(name)!r}: the weight {key!r} has the shape {tuple(found)}, expected {tuple(expected)}; "
            "give a model that does not classify yet"
        )
    if is_trained and (missing := sorted(loading["missing_keys"])):
        raise InputError(f"{where}: {str(name)!r} lacks the weight {missing[0]!r}; train it again")
    check_finite(model, where, name)
    return tokenizer, model


@contextmanager
def in_one_line(name: str | Path, where: str) -> Iterator[None]:
    """Report an exception of transformers in one line."""
    try:
        yield
    except InputError:
        raise
    # The library may raise any exception for a damaged file.
    except Exception as error:
        is_gguf = str(name).endswith(GGUF)
        needed = "the whole file" if is_gguf else "a folder with config.json, model.safetensors and a tokenizer"
        raise InputError(f"{where}: {str(name)!r} cannot be loaded ({reason_of(error)}); give {needed}") from None


def reason_of(error: Exception) -> str:
    """Return the first line of an exception of transformers, or its class if it has no text."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0]


def check_config(folder: Path) -> None:
    """Check ``config.json`` and an index of weights before a model is built from them."""
    parts_of(weight_file(folder))
    path = folder / CONFIG_FILE
    content = read_json(path)
    if "auto_map" in content:
        raise InputError(f"{path}: auto_map names code of the model, which is never run; give a model of transformers")
    for key, value in values_in(content):
        if "attn_implementation" in key and isinstance(value, str) and "/" in value:
            raise InputError(
                f"{path}: {key} {value!r} names code on the hub, which is never downloaded; remove the key"
            )
        if isinstance(value, int) and abs(value) > LARGEST_SIZE:
            raise InputError(f"{path}: {key} is {value}, larger than the maximum {LARGEST_SIZE}")


def check_finite(model: nn.Module, where: str, name: str | Path) -> None:
    for key, weight in model.named_parameters():
        if not bool(torch.isfinite(weight).all()):
            raise InputError(f"{where}: {str(name)!r}: the weight {key!r} has values that are not finite")
