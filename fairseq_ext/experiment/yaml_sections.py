"""Reading YAML into dataclasses, strictly: what is not asked for, of the wrong kind or given twice is an error."""

from __future__ import annotations

import dataclasses
import types
import typing
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from fairseq_ext.errors import InputError

_KIND_WORDS: dict[type, str] = {
    str: "text (in quotes)",
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    Path: "a path",
}
_MERGE = "tag:yaml.org,2002:merge"  # of the key <<
_NOTHING: Mapping[str, Any] = types.MappingProxyType({})


def read_section(kind: type, value: Any, where: str, given: Mapping[str, Any] = _NOTHING) -> Any:
    """Make a dataclass from a mapping and from values ``given`` in their final types."""
    fields = [item for item in dataclasses.fields(kind) if item.metadata.get("in_file", True)]
    allowed = sorted(item.name for item in fields)
    entries = as_mapping(value, where)
    for key in entries:
        if key not in allowed:
            raise InputError(f"{where}: unknown key {key!r}; allowed are {', '.join(allowed)}")
    for item in fields:
        required = item.default is dataclasses.MISSING and item.default_factory is dataclasses.MISSING
        if required and item.name not in entries.keys() | given.keys():
            raise InputError(f"{where}: the key {item.name!r} is missing")
    hints = typing.get_type_hints(kind)
    converted = {key: _convert(entry, hints[key], f"{where}: {key}") for key, entry in entries.items()}
    return kind(**converted, **given)


def _convert(value: Any, hint: Any, where: str) -> Any:
    """Check a scalar, list or mapping against a type hint; whole numbers and ``1e-5`` pass as floats."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin is types.UnionType:
        return None if value is None else _convert(value, arguments[0], where)
    if origin is list:
        items = [value] if isinstance(value, str) else value
        if not isinstance(items, list) or not items:
            raise InputError(f"{where}: expected a list, got {value!r}")
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
        try:
            return float(value)
        except ValueError:
            pass
    # isinstance(True, int) holds, and YAML reads the language code ``no`` as False.
    elif isinstance(value, hint) and isinstance(value, bool) == (hint is bool):
        return value
    raise InputError(f"{where}: expected {_KIND_WORDS[hint]}, got {value!r}")


def as_mapping(value: Any, where: str) -> dict[str, Any]:
    """Return ``value`` if it is a mapping.

    Raises:
        InputError: naming ``where``, otherwise.
    """
    if not isinstance(value, dict):
        raise InputError(f"{where}: expected keys and values, got {value!r}")
    return value


def check_choice(value: str, allowed: Sequence[str], where: str) -> None:
    """Raise unless ``value`` is one of the allowed ones.

    Raises:
        InputError: naming ``where``, the value and the choices.
    """
    if value not in allowed:
        raise InputError(f"{where}: {value!r} is unknown; choose one of {', '.join(allowed)}")


def check_numbers(values: Mapping[str, Any], where: str, minimum: Mapping[str, int] = _NOTHING) -> None:
    """Raise unless all numbers among the values of a section are above zero, and no less than their ``minimum``.

    Raises:
        InputError: naming ``where``, the key and its value.
    """
    for key, value in values.items():
        if isinstance(value, int | float) and (value <= 0 or value < minimum.get(key, 0)):
            raise InputError(f"{where}: {key}: {value} is too small; give {minimum.get(key, 'more than 0')}")


def check_seed(seed: int, where: str) -> None:
    """Raise unless every generator in use takes this seed.

    Raises:
        InputError: naming ``where`` and the range.
    """
    if not 0 <= seed < 1 << 31:
        raise InputError(f"{where}: seed: {seed} is out of range; give 0 to {(1 << 31) - 1}")


class _UniqueKeyLoader(yaml.SafeLoader):
    """PyYAML keeps the last of two equal keys without a word; a repeated key is a mistake.

    A key that comes with ``<<: *other`` may be repeated, as it is there to be changed.
    """

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        own = [key for key, _ in node.value if key.tag != _MERGE]
        keys = [self.construct_object(key, deep=True) for key in own]  # type: ignore[no-untyped-call]
        for key in keys:
            if keys.count(key) > 1:
                raise yaml.constructor.ConstructorError(None, None, f"repeated key {key!r}", node.start_mark)
        return super().construct_mapping(node, deep)


def load_yaml(path: Path) -> dict[str, Any]:
    """Read a YAML file whose top level is a mapping.

    Raises:
        InputError: if it cannot be read, is no YAML or repeats a key.
    """
    try:
        text = path.read_text(encoding="utf-8")
        return as_mapping(yaml.load(text, Loader=_UniqueKeyLoader), str(path))
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: cannot be read ({error})") from None
    except yaml.YAMLError as error:
        raise InputError(f"{path}: is not valid YAML: {' '.join(str(error).split())}") from None
