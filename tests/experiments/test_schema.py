"""The schemas of experiment files are those of the code, and know all keys of the files in configs/."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from fairseq_ext.experiments.registry import recipe_names, schemas

ROOT = Path(__file__).resolve().parents[2]
CONFIGS = sorted((ROOT / "configs").rglob("*.yaml"))


def unknown_keys(value: Any, schema: Any, root: dict[str, Any], where: str = "") -> list[str]:
    """The keys in a value that a schema refuses."""
    if isinstance(schema, bool):
        return [] if schema else [where]
    if "$ref" in schema:
        return unknown_keys(value, root["$defs"][schema["$ref"].rpartition("/")[2]], root, where)
    if alternatives := schema.get("anyOf", schema.get("oneOf")):
        return min((unknown_keys(value, each, root, where) for each in alternatives), key=len)
    found = []
    for key, entry in value.items() if isinstance(value, dict) else ():
        patterns = schema.get("patternProperties", {}).items()
        matching = (each for pattern, each in patterns if re.search(pattern, key))
        own = schema.get("properties", {}).get(key, next(matching, schema.get("additionalProperties", True)))
        found += unknown_keys(entry, own, root, f"{where}: {key}")
    return found


def committed(kind: str) -> Any:
    return json.loads((ROOT / "configs" / "schema" / f"{kind}.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("kind", recipe_names())
def test_committed_schemas_are_current(kind: str) -> None:
    assert committed(kind) == schemas()[kind], "run tools/write_schemas.py"


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: path.name)
def test_the_keys_of_every_experiment_are_in_its_schema(path: Path) -> None:
    content = yaml.safe_load(path.read_text(encoding="utf-8"))
    schema = committed(content["kind"])
    assert unknown_keys({**content, "wrok_dir": "x"}, schema, schema) == [": wrok_dir"]
