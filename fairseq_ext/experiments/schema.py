"""JSON schemas of experiment files, by which editors complete keys and mark mistakes: made of the files' dataclasses.

They say what :func:`fairseq_ext.inputs.sections.read_section` takes; what it hands on unread they leave open. Only
``scripts/write_schemas.py`` uses this, so that no command waits for it.
"""

from __future__ import annotations

import dataclasses
import importlib
import inspect
import re
import types
import typing
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fairseq_ext import experiments
from fairseq_ext.experiments.kinds import Kind, kind_names
from fairseq_ext.filtering.cascade import FILTERS
from fairseq_ext.filtering.clean import Cleaning
from fairseq_ext.filtering.normalise import Normalise
from fairseq_ext.inputs.models import Section
from fairseq_ext.recipes.config import System
from fairseq_ext.recipes.run import DIALECT, recipe_names
from fairseq_ext.recipes.run import schema_of as recipe_schema

Schema = dict[str, Any]

# YAML 1.1 reads 1e-5, which has no dot, as text.
_NUMBER: Schema = {"type": ["number", "string"], "pattern": r"^[-+0-9.eE_]+$"}
_SCALARS: Mapping[Any, Schema] = {
    str: {"type": "string"},
    Path: {"type": "string"},
    int: {"type": "integer"},
    float: _NUMBER,
    bool: {"type": "boolean"},
}
_OF_FAIRSEQ = {"type": ["string", "number", "boolean", "null", "array"]}


def schemas() -> dict[str, Schema]:
    """The schema of each kind of experiment file."""
    recipes = recipe_names()
    return {name: recipe_schema(name) if name in recipes else schema_of(name) for name in kind_names()}


def schema_of(name: str) -> Schema:
    """The schema of the files of a kind: of what its reader returns."""
    kind: Kind = importlib.import_module(f"{experiments.__name__}.{name}.kind").KIND
    experiment = typing.get_type_hints(kind.read)["return"]
    schema = _section(experiment)
    schema["properties"] = {"kind": {"const": name}, **schema["properties"], **_open_sections(experiment)}
    schema["required"] += ["kind"]
    return {"$schema": DIALECT, "title": f"kind: {name}", **schema}


def _section(kind: type) -> Schema:
    """The schema of a dataclass."""
    hints, texts = typing.get_type_hints(kind), _attributes(kind)
    fields = [item for item in dataclasses.fields(kind) if item.metadata.get("in_file", True)]
    properties = {item.name: _property(item, hints[item.name], texts.get(item.name)) for item in fields}
    if kind is Cleaning:
        filters = {name: _or_null(_section(each)) for name, each in FILTERS.items()}
        properties |= {"filters": _or_null(_object(filters)), "normalise": _or_null(_section(Normalise))}
    required = [item.name for item in fields if _default(item) is dataclasses.MISSING]
    return {"description": _summary(kind), **_object(properties), "required": required}


def _property(item: dataclasses.Field[Any], hint: Any, text: str | None) -> Schema:
    default = _default(item)
    shown = default is None or isinstance(default, str | int | float | bool)
    return {
        **_value(hint),
        **({"description": text} if text else {}),
        **({"default": default} if shown else {}),
    }


def _value(hint: Any) -> Schema:
    """The schema of a type hint."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in (types.UnionType, typing.Union):
        return {"anyOf": [{"type": "null"} if each is types.NoneType else _value(each) for each in arguments]}
    if origin is list:
        return {"type": ["array", "string"], "items": _value(arguments[0])}
    if origin is dict and arguments[1] is not Any:
        return {"type": "object", "additionalProperties": _value(arguments[1])}
    if isinstance(hint, type) and issubclass(hint, Section):
        return hint.json_schema()
    if dataclasses.is_dataclass(hint):
        return _section(typing.cast(type, hint))
    return dict(_SCALARS.get(hint, {"type": ["object", "null"]}))


def _open_sections(experiment: type) -> dict[str, Schema]:
    """The sections whose names are the user's, where a kind has them; see :mod:`fairseq_ext.recipes.config`.

    An experiment has them under the same name or, once read, under that of what they hold.
    """
    hints = typing.get_type_hints(experiment)
    read = typing.get_args(hints.get("systems", Mapping[str, System]))[1]
    system = read if issubclass(read, System) else System
    own = system.json_schema()["properties"]
    train = _entries("systems", "Systems by name, options of fairseq-train among their keys.", own)
    translate = _entries("outputs", "Outputs by name, options of fairseq-generate among their keys.", {})
    translate["properties"] |= {"examples": {"description": "Lines to translate and show, by output."}}
    tree = {
        "description": "Domain trees by name, each a file, or options of a tree that is induced.",
        "type": ["object", "null"],
        "additionalProperties": {"type": ["string", "object", "null"]},
    }
    sections = {("train", "systems"): train, ("translate", "outputs"): translate, ("tree", "trees"): tree}
    return {
        names[0]: section
        for names, section in sections.items()
        if any(name in hints and _is_open(hints[name]) for name in names)
    }


def _is_open(hint: Any) -> bool:
    """Whether it is a mapping that is not read entry by entry."""
    return typing.get_origin(hint) is not dict or typing.get_args(hint)[1] is Any


def _entries(key: str, text: str, own: Mapping[str, Schema]) -> Schema:
    options = {"type": ["object", "null"], "properties": dict(own), "additionalProperties": _OF_FAIRSEQ}
    entries = {"description": text, "type": ["object", "null"], "additionalProperties": options}
    return _object({"common": {"description": "What all of them begin with.", **options}, key: entries})


def _object(properties: Mapping[str, Schema]) -> Schema:
    return {"type": "object", "properties": dict(properties), "additionalProperties": False}


def _or_null(schema: Schema) -> Schema:
    return {"anyOf": [schema, {"type": "null"}]}


def _default(item: dataclasses.Field[Any]) -> Any:
    return item.default if item.default_factory is dataclasses.MISSING else item.default_factory()


def _summary(kind: type) -> str:
    """The first paragraph of its docstring."""
    return _plain((inspect.getdoc(kind) or "").partition("\n\n")[0])


def _attributes(kind: type) -> dict[str, str]:
    """What its docstring, and those of its bases, say of each attribute."""
    found: dict[str, str] = {}
    for each in reversed(kind.__mro__):
        listed = (inspect.cleandoc(each.__doc__ or "") + "\n").partition("Attributes:\n")[2]
        entries = re.findall(r"^    (\w+): (.*\n(?:      .*\n)*)", listed, re.MULTILINE)
        found |= {name: _plain(text) for name, text in entries}
    return found


def _plain(text: str) -> str:
    """Docstring markup as Markdown, on one line."""
    return re.sub(r":\w+:`~?([^`]+)`", r"`\1`", " ".join(text.split())).replace("``", "`")
