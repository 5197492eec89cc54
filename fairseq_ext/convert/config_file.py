"""``config.json`` of a Hugging Face directory, and other JSON of theirs: nothing in them is believed unchecked."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fairseq_ext.inputs import json_file
from fairseq_ext.inputs.errors import InputError

CONFIG_FILE = "config.json"


def read_json(path: Path) -> dict[str, Any]:
    """Read a JSON file of a Hugging Face directory; see :func:`fairseq_ext.inputs.json_file.read_json`."""
    return json_file.read_json(path, "give a folder that holds a model of Hugging Face's")


def write_config(folder: Path, content: Mapping[str, Any]) -> None:
    """Write ``config.json``, its keys sorted."""
    (folder / CONFIG_FILE).write_text(json.dumps(content, indent=2, sort_keys=True) + "\n", encoding="utf-8")


def check_fixed(content: Mapping[str, Any], fixed: Mapping[str, Any], path: Path) -> None:
    """Check the keys that may have one value only; one that is not there has it.

    Raises:
        InputError: naming the first key with another value.
    """
    for key, value in fixed.items():
        if content.get(key, value) != value:
            raise InputError(f"{path}: {key} is {content[key]!r}; only models with {value!r} can be converted")


def read_size(content: Mapping[str, Any], key: str, path: Path) -> int:
    """A whole number above 0.

    Raises:
        InputError: if the key is missing or its value is none.
    """
    value = content.get(key)
    if type(value) is not int or value < 1:
        raise InputError(f"{path}: {key}: expected a whole number above 0, got {value!r}")
    return value


def read_rate(content: Mapping[str, Any], key: str, path: Path) -> float:
    """A rate of dropout; 0.1, Hugging Face's own, if the key is missing.

    Raises:
        InputError: if its value is none.
    """
    value = content.get(key, 0.1)
    if type(value) not in (int, float) or not 0 <= value < 1:
        raise InputError(f"{path}: {key}: expected a rate from 0 to 1, got {value!r}")
    return float(value)


def check_vocab_size(given: int, num_symbols: int, path: Path) -> None:
    """Check that ``config.json`` and the tokeniser know as many symbols.

    Raises:
        InputError: if they do not.
    """
    if given != num_symbols:
        raise InputError(
            f"{path}: vocab_size is {given}, but the tokeniser has {num_symbols} symbols; the two do not belong "
            "together"
        )
