"""Recipes: subpackages whose module ``stages`` defines ``RECIPE``. ``kind:`` in a file names the subpackage."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from fairseq_ext import experiments
from fairseq_ext.base.errors import InputError, check_choice
from fairseq_ext.base.jobs import Engine
from fairseq_ext.base.stages import Stage, check_stage_names
from fairseq_ext.base.steps import Step
from fairseq_ext.base.yaml_file import load_yaml
from fairseq_ext.experiments.config import Experiment, read_experiment

DIALECT = "https://json-schema.org/draft/2020-12/schema"
DEFAULT = "translation"  # for files without ``kind``


@dataclass(frozen=True)
class Recipe:
    """A recipe, named after its subpackage."""

    config: type[Experiment]  # model of the experiment file
    prepare: Callable[[Any, Engine], list[Step]]  # steps that prepare the training data
    stages: Callable[[Any], list[Stage]]  # all stages in order; each system is a stage with its name


ExperimentT = TypeVar("ExperimentT", bound=Experiment)


def load_as(name: str, model: type[ExperimentT], path: Path) -> ExperimentT:
    """Read an experiment file for a command of one recipe. A file without ``kind`` is read as this recipe."""
    content = dict(load_yaml(path))
    found = content.pop("kind", None) or name
    if found != name:
        raise InputError(f"{path}: kind: this command supports {name} only, not {found!r}; use fairseq-ext run")
    return read_experiment(model, content, path)


def recipe_names() -> list[str]:
    """Return the names of all recipes, in alphabetical order."""
    return sorted(path.parent.name for folder in experiments.__path__ for path in Path(folder).glob("*/stages.py"))


def load_experiment(path: Path) -> tuple[Recipe, Any]:
    """Read an experiment file of any recipe. A file without ``kind`` is read as ``translation``."""
    content = dict(load_yaml(path))
    name = content.pop("kind", None) or DEFAULT
    check_choice(name, recipe_names(), f"{path}: kind")
    recipe = load_recipe(name)
    experiment = read_experiment(recipe.config, content, path)
    check_stage_names(recipe.stages(experiment), f"{path}: train: systems")
    return recipe, experiment


def load_recipe(name: str) -> Recipe:
    """Import the recipe with this name."""
    recipe: Recipe = importlib.import_module(f"{experiments.__name__}.{name}.stages").RECIPE
    return recipe


def schemas() -> dict[str, dict[str, Any]]:
    """Return the JSON schema of each recipe's files, for completion and validation in editors."""
    return {name: _schema_of(name) for name in recipe_names()}


def _schema_of(name: str) -> dict[str, Any]:
    schema = load_recipe(name).config.json_schema()
    properties = {"kind": {"enum": [name]}, **schema.pop("properties")}
    required = ([] if name == DEFAULT else ["kind"]) + schema.pop("required")
    return {"$schema": DIALECT, **schema, "title": f"kind: {name}", "properties": properties, "required": required}
