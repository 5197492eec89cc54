"""Entries of an experiment file with options of fairseq's, for the kinds that are no recipes yet."""

from __future__ import annotations

from typing import Any

from fairseq_ext.inputs.errors import InputError, shown


def take(options: dict[str, Any], key: str, kind: type, default: Any, where: str) -> Any:
    """Take one of our own keys, text or true or false, out of fairseq's options.

    Raises:
        InputError: naming ``where``, the key and its value, if that is of another kind.
    """
    value = options.pop(key, None)
    if value is None:
        return default
    if not isinstance(value, kind):
        words = {bool: "true or false", str: "text"}
        raise InputError(f"{where}: {key}: expected {words[kind]}, got {shown(value)}")
    return value
