"""Kinds of experiments: recipes first; others are folders here whose module ``kind`` says what is done with a file.

``kind:`` in an experiment file names the folder; a file without it is a translation experiment. Nothing else lists the
kinds, so a new one is a new folder.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from fairseq_ext import experiments
from fairseq_ext.engine.stages import Stage
from fairseq_ext.engine.steps import Step
from fairseq_ext.engine.tasks import Engine
from fairseq_ext.inputs.errors import InputError
from fairseq_ext.inputs.sections import check_choice
from fairseq_ext.inputs.yaml_file import load_yaml
from fairseq_ext.recipes.run import DEFAULT, find_recipe, recipe_names

_KEY, _MODULE = "kind", "kind"

_Read = TypeVar("_Read")


@dataclass(frozen=True)
class Kind:
    """One kind of experiment, called like its folder.

    Attributes:
        read: makes an experiment of the content of its file, less ``kind``, and the file's path; raises
            :class:`~fairseq_ext.inputs.errors.InputError` naming file and key.
        prepare: the steps up to the data that models are trained on.
        stages: all that is done with it, in order; every system is a stage of its own name.
    """

    read: Callable[[Mapping[str, Any], Path], Any]
    prepare: Callable[[Any, Engine], list[Step]]
    stages: Callable[[Any], list[Stage]]


def kind_names() -> list[str]:
    """The kinds there are, in alphabetical order."""
    return sorted([*_own_names(), *recipe_names()])


def _own_names() -> list[str]:
    return sorted(
        module.name
        for module in pkgutil.iter_modules(experiments.__path__)
        if module.ispkg
        and any((Path(folder) / module.name / f"{_MODULE}.py").is_file() for folder in experiments.__path__)
    )


def load_experiment(path: Path) -> tuple[Kind, Any]:
    """Read an experiment file of any kind; a file that does not say is a translation experiment.

    Raises:
        InputError: naming the file and key, and what is allowed there.
    """
    content = dict(load_yaml(path))
    name = content.pop(_KEY, None) or DEFAULT
    if recipe := find_recipe(name, path):
        return Kind(recipe.read, recipe.prepare, recipe.stages), recipe.read(content, path)
    check_choice(name, kind_names(), f"{path}: {_KEY}")
    kind: Kind = importlib.import_module(f"{experiments.__name__}.{name}.{_MODULE}").KIND
    return kind, kind.read(content, path)


def load_as(names: Sequence[str], read: Callable[[Mapping[str, Any], Path], _Read], path: Path) -> _Read:
    """Read an experiment file for what is for certain kinds only; a file that does not say is taken for the first.

    Args:
        names: the kinds.
        read: its reader.
        path: the file.

    Raises:
        InputError: if the file is of another kind, or naming the key that is wrong.
    """
    content = dict(load_yaml(path))
    found = content.pop(_KEY, names[0])
    if found not in names:
        raise InputError(
            f"{path}: {_KEY}: {found!r}, and this command is for {' and '.join(names)} only; "
            "scripts/run_experiment.sh runs any kind"
        )
    return read(content, path)
