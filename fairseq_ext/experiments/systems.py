"""Entries of an experiment file with options of fairseq's, for the kinds that are no recipes yet."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from fairseq_ext.engine.fairseq_cli import check_option
from fairseq_ext.inputs.errors import InputError, shown
from fairseq_ext.inputs.sections import as_mapping
from fairseq_ext.recipes.config import Place

# A name is a directory's, and @ sets its run apart.
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
# Each of them is a training, or a pass over the test sets.
_MOST_ENTRIES, _MOST_OPTIONS = 200, 500


def named_entries(
    section: Mapping[str, Any], key: str, where: str, others: Sequence[str] = (), nested: Sequence[str] = ()
) -> dict[str, dict]:
    """The entries under ``key`` of a section, each on top of the options under ``common``.

    Args:
        section: ``train`` or ``translate``.
        key: where its named entries are.
        where: the file and section, for messages.
        others: keys that are allowed besides and left alone.
        nested: keys of an entry that are no options; what is under them is not looked at.

    Raises:
        InputError: naming a key or name that is not allowed, or a value that is no mapping, or not of options.
    """
    allowed = sorted({"common", key, *others})
    for name in section:
        if name not in allowed:
            raise InputError(f"{where}: unknown key {shown(name)}; allowed are {', '.join(allowed)}")
    common = as_mapping(section.get("common") or {}, f"{where}: common")
    entries = as_mapping(section.get(key) or {}, f"{where}: {key}")
    if len(entries) > _MOST_ENTRIES:
        raise InputError(f"{where}: {key}: {len(entries)} are more than {_MOST_ENTRIES}; write several files")
    for name in entries:
        if not _NAME.fullmatch(name):
            raise InputError(f"{where}: {key}: {shown(name)} is no name; use letters, digits, '-', '_' and '.' only")
    for name, entry in {"common": common, **{f"{key}: {name}": entry or {} for name, entry in entries.items()}}.items():
        options = as_mapping(entry, f"{where}: {name}")
        _check_options({option: options[option] for option in options if option not in nested}, f"{where}: {name}")
    merged = {name: {**common, **(entry or {})} for name, entry in entries.items()}
    for name, options in merged.items():
        _check_spelling(options, f"{where}: {key}: {name}")
    return merged


def place_of(section: Mapping[str, Any], key: str, name: str, where: str) -> Place:
    """The place of an entry's options; arguments as of :func:`named_entries`."""
    return Place(f"{where}: {key}: {name}", tuple(section[key][name] or ()), tuple(section.get("common") or ()))


def _check_spelling(options: Mapping[str, Any], where: str) -> None:
    """Refuse an option that is given with hyphens and with underscores: which of both counts is left to chance."""
    seen: dict[str, str] = {}
    for name in options:
        first = seen.setdefault(name.replace("_", "-"), name)
        if first != name:
            raise InputError(f"{where}: {first} and {name} are one option; keep one of them")


def _check_options(options: Mapping[str, Any], where: str) -> None:
    """Check that names and values can stand on a command line."""
    if len(options) > _MOST_OPTIONS:
        raise InputError(f"{where}: {len(options)} options are more than {_MOST_OPTIONS}, and than fairseq has")
    for name, value in options.items():
        check_option(name, where)
        if any(isinstance(item, list | dict) for item in (value if isinstance(value, list) else [value])):
            raise InputError(f"{where}: {name}: expected a single value or a list of such, got {shown(value)}")


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
