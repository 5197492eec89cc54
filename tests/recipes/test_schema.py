"""The schemas of experiment files are those of the code, take what is in configs/, and refuse what reading refuses."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from fairseq_ext.recipes.registry import recipe_names, schemas

Schema = dict[str, Any]
ROOT = Path(__file__).resolve().parents[2]
CONFIGS = sorted((ROOT / "configs").rglob("*.yaml"))
TYPES: dict[str, Callable[[Any], bool]] = {
    "object": lambda value: isinstance(value, dict),
    "array": lambda value: isinstance(value, list),
    "string": lambda value: isinstance(value, str),
    "integer": lambda value: type(value) is int,
    "number": lambda value: type(value) in (int, float),
    "boolean": lambda value: isinstance(value, bool),
    "null": lambda value: value is None,
}


def mistakes(value: Any, schema: Any, where: str = "", root: Schema | None = None) -> list[str]:
    """Where a value does not keep to a schema, as far as ours go."""
    if schema is True:  # anything
        return []
    root = root or schema
    if "$ref" in schema:
        return mistakes(value, root["$defs"][schema["$ref"].rpartition("/")[2]], where, root)
    alternatives = schema.get("anyOf", schema.get("oneOf"))
    if alternatives:
        return min((mistakes(value, each, where, root) for each in alternatives), key=len)
    allowed = schema.get("type", list(TYPES))
    if not any(TYPES[name](value) for name in ([allowed] if isinstance(allowed, str) else allowed)):
        return [f"{where}: type"]
    found = [f"{where}: value"] if value not in schema.get("enum", [schema.get("const", value)]) else []
    if isinstance(value, str) and not re.search(schema.get("pattern", ""), value):
        found.append(f"{where}: pattern")
    if isinstance(value, list):
        found += [each for item in value for each in mistakes(item, schema.get("items", {}), where, root)]
    if isinstance(value, dict):
        others = schema.get("additionalProperties", {})
        found += [f"{where}: {name} is missing" for name in schema.get("required", []) if name not in value]
        for name, entry in value.items():
            patterns = schema.get("patternProperties", {}).items()
            matching = (each for pattern, each in patterns if re.search(pattern, name))
            own = schema.get("properties", {}).get(name) or next(matching, others)
            found += [f"{where}: {name} is unknown"] if own is False else mistakes(entry, own, f"{where}: {name}", root)
    return found


def committed(kind: str) -> Schema:
    schema: Schema = json.loads((ROOT / "configs" / "schema" / f"{kind}.json").read_text(encoding="utf-8"))
    return schema


@pytest.mark.parametrize("kind", recipe_names())
def test_the_files_are_those_of_the_code(kind: str) -> None:
    assert committed(kind) == schemas()[kind], "run scripts/write_schemas.py"


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: path.name)
def test_every_experiment_keeps_to_its_schema(path: Path) -> None:
    content = yaml.safe_load(path.read_text(encoding="utf-8"))
    assert mistakes(content, committed(content["kind"])) == []
