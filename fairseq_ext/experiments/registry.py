"""Kinds of experiments: folders whose module ``stages`` defines ``RECIPE``. ``kind:`` in a file names the folder."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

from fairseq_ext import experiments
from fairseq_ext.base.errors import check_choice
from fairseq_ext.base.stages import check_stage_names
from fairseq_ext.base.yaml_file import load_yaml
from fairseq_ext.experiments.config import read_experiment
from fairseq_ext.experiments.recipe import Recipe

DIALECT = "https://json-schema.org/draft/2020-12/schema"
DEFAULT = "translation"  # for files without ``kind``


def recipe_names() -> list[str]:
    """Return the names of all kinds, in alphabetical order."""
    return sorted(path.parent.name for folder in experiments.__path__ for path in Path(folder).glob("*/stages.py"))


def load_experiment(path: Path) -> Recipe[Any]:
    """Read an experiment file of any kind. A file without ``kind`` is read as ``translation``."""
    content = dict(load_yaml(path))
    name = content.pop("kind", None) or DEFAULT
    check_choice(name, recipe_names(), f"{path}: kind")
    kind = load_recipe(name)
    recipe = kind(read_experiment(kind.experiment_type, content, path))
    check_stage_names(recipe.stages(), f"{path}: train: systems")
    return recipe


def load_recipe(name: str) -> type[Recipe[Any]]:
    """Import the kind with this name."""
    recipe: type[Recipe[Any]] = importlib.import_module(f"{experiments.__name__}.{name}.stages").RECIPE
    return recipe


def schemas() -> dict[str, dict[str, Any]]:
    """Return the JSON schema of the files of each kind, for completion and validation in editors."""
    return {name: _schema_of(name) for name in recipe_names()}


def _schema_of(name: str) -> dict[str, Any]:
    schema = load_recipe(name).experiment_type.json_schema()
    properties = {"kind": {"enum": [name]}, **schema.pop("properties")}
    required = ([] if name == DEFAULT else ["kind"]) + schema.pop("required")
    return {"$schema": DIALECT, **schema, "title": f"kind: {name}", "properties": properties, "required": required}
