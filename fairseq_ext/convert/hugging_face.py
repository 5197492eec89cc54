"""Files of a Hugging Face directory: validated JSON, and weights read as data only."""

from __future__ import annotations

import pickle
import struct
import zipfile
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor

from fairseq_ext.base.errors import InputError, shown
from fairseq_ext.modules.pretrained import CONFIG_FILE, LARGEST_SIZE, parts_of, read_json, weight_file
from fairseq_ext.text.text_files import read_lines

_DAMAGED = (
    *(SafetensorError, pickle.UnpicklingError, zipfile.BadZipFile, struct.error, OSError, EOFError, RuntimeError),
    *(ValueError, KeyError, TypeError, AttributeError, IndexError, MemoryError, OverflowError),
)


def refuse_added_tokens(folder: Path, known: Collection[str]) -> None:
    """Refuse a tokenizer with tokens added to its vocabulary: the imported subwords would cut them.

    Args:
        known: special tokens of such models.
    """
    known = {*known, *_vocabulary(folder)}
    for token in _added_tokens(folder):
        if token not in known:
            raise InputError(
                f"{folder}: the token {shown(token)} was added to the tokenizer, which is not supported; import a "
                "model without added tokens"
            )


def _added_tokens(folder: Path) -> Iterator[str]:
    for name in ("added_tokens.json", "tokenizer_config.json", "tokenizer.json"):
        content = read_json(folder / name) if (folder / name).is_file() else {}
        entries = content.get("added_tokens", content.get("added_tokens_decoder"))
        if name == "added_tokens.json":
            yield from content
        elif isinstance(entries, dict | list):
            items = entries.values() if isinstance(entries, dict) else entries
            yield from (str(item.get("content")) for item in items if isinstance(item, dict))


def _vocabulary(folder: Path) -> set[str]:
    """Return the symbols of the vocabulary files of a folder."""
    found: set[str] = set()
    for name in ("vocab.json", "target_vocab.json", "tokenizer.json"):
        content: Any = read_json(folder / name) if (folder / name).is_file() else {}
        if name == "tokenizer.json":
            model = content.get("model")
            content = model.get("vocab") if isinstance(model, dict) else None
        if isinstance(content, dict):
            found.update(content)
        elif isinstance(content, list):
            found.update(str(entry[0]) for entry in content if isinstance(entry, list) and entry)
    return found.union(read_lines(folder / "vocab.txt") if (folder / "vocab.txt").is_file() else ())


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
