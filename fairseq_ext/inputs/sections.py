"""Values of an experiment file into dataclasses, strictly: what is not asked for or of the wrong kind is an error."""

from __future__ import annotations

import contextlib
import dataclasses
import math
import types
import typing
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from fairseq_ext.inputs.errors import InputError, shown

_KIND_WORDS: dict[type, str] = {
    str: "text (in quotes)",
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    Path: "a path",
}
_LARGEST = 1 << 31  # what libraries in C count with
_NOTHING: Mapping[str, Any] = types.MappingProxyType({})


def read_section(
    kind: type, value: Any, where: str, given: Mapping[str, Any] = _NOTHING, others: Sequence[str] = ()
) -> Any:
    """Make a dataclass from a mapping and from values ``given`` in their final types.

    ``others`` are keys that the file may have besides and that have been taken out of the mapping.
    """
    entries = as_mapping(value, where)
    check_keys(kind, entries, where, others)
    for item in _fields_in_file(kind):
        required = item.default is dataclasses.MISSING and item.default_factory is dataclasses.MISSING
        if required and item.name not in entries.keys() | given.keys():
            raise InputError(f"{where}: the key {item.name!r} is missing")
    hints = typing.get_type_hints(kind)
    converted = {key: _convert(entry, hints[key], f"{where}: {key}") for key, entry in entries.items()}
    return kind(**converted, **given)


def check_keys(kind: type, entries: Mapping[str, Any], where: str, others: Sequence[str] = ()) -> None:
    """Raise unless all keys are of fields that a dataclass has in a file, or among ``others``.

    Raises:
        InputError: naming ``where``, the key and what is allowed.
    """
    allowed = sorted([*(item.name for item in _fields_in_file(kind)), *others])
    for key in entries:
        if key not in allowed:
            raise InputError(f"{where}: unknown key {shown(key)}; allowed are {', '.join(allowed)}")


def _fields_in_file(kind: type) -> list[dataclasses.Field]:
    return [item for item in dataclasses.fields(kind) if item.metadata.get("in_file", True)]


def _convert(value: Any, hint: Any, where: str) -> Any:
    """Check a scalar, list or mapping against a type hint; whole numbers and ``1e-5`` pass as floats."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin is types.UnionType:
        return None if value is None else _convert(value, arguments[0], where)
    if origin is list:
        items = [value] if isinstance(value, str) else value
        if not isinstance(items, list) or not items:
            raise InputError(f"{where}: expected a list, got {shown(value)}")
        return [_convert(item, arguments[0], where) for item in items]
    if origin is dict:
        return {
            _convert(key, arguments[0], where): _convert(item, arguments[1], f"{where}: {key}")
            for key, item in as_mapping(value, where).items()
        }
    return _convert_scalar(value, hint, where)


def _convert_scalar(value: Any, hint: type, where: str) -> Any:
    if hint is Path and isinstance(value, str):
        return Path(value)
    # YAML 1.1 reads 1e-5, which has no dot, as text.
    if hint is float and isinstance(value, int | float | str) and not isinstance(value, bool):
        with contextlib.suppress(ValueError, OverflowError):
            if math.isfinite(number := float(value)):
                return number
    # isinstance(True, int) holds, and YAML reads the language code ``no`` as False.
    elif isinstance(value, hint) and isinstance(value, bool) == (hint is bool):
        return value
    raise InputError(f"{where}: expected {_KIND_WORDS[hint]}, got {shown(value)}")


def as_mapping(value: Any, where: str) -> dict[str, Any]:
    """Return ``value`` if it is a mapping whose keys are text.

    Raises:
        InputError: naming ``where``, otherwise.
    """
    if not isinstance(value, dict):
        raise InputError(f"{where}: expected keys and values, got {shown(value)}")
    for key in value:
        if not isinstance(key, str):
            raise InputError(f"{where}: the key {shown(key)} is no text; put it in quotes")
    return value


def check_choice(value: Any, allowed: Sequence[str], where: str) -> None:
    """Raise unless ``value`` is one of the allowed ones.

    Raises:
        InputError: naming ``where``, the value and the choices.
    """
    if value not in allowed:
        raise InputError(f"{where}: {shown(value)} is unknown; choose one of {', '.join(allowed)}")


def check_numbers(values: Mapping[str, Any], where: str, minimum: Mapping[str, int] = _NOTHING) -> None:
    """Raise unless all numbers among the values of a section are above zero, no less than their ``minimum``, no giants.

    Raises:
        InputError: naming ``where``, the key and its value.
    """
    for key, value in values.items():
        if isinstance(value, int | float) and (value <= 0 or value < minimum.get(key, 0)):
            raise InputError(f"{where}: {key}: {value} is too small; give {minimum.get(key, 'more than 0')}")
        if isinstance(value, int | float) and value >= _LARGEST:
            raise InputError(f"{where}: {key}: {value} is too large; give less than {_LARGEST}")


def check_seed(seed: int, where: str) -> None:
    """Raise unless every generator in use takes this seed.

    Raises:
        InputError: naming ``where`` and the range.
    """
    if not 0 <= seed < _LARGEST:
        raise InputError(f"{where}: seed: {seed} is out of range; give 0 to {_LARGEST - 1}")
