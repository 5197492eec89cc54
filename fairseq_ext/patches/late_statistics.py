"""fairseq loads without scikit-learn and SciPy, which take longer to load than torch.

Four functions of two of its files need them: F1 and correlations of a criterion, ROC curves of a task for speech.
Nothing of fairseq's is loaded here, since this must come first.
"""

from __future__ import annotations

import builtins
import importlib.abc
import pkgutil
import sys
from collections.abc import Callable, Sequence
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import Any

_LIBRARIES = {"sklearn", "scipy"}
_USERS = {"fairseq.criterions.sentence_prediction", "fairseq.tasks.audio_classification"}


def load_statistics_late() -> None:
    """Let these files of fairseq's, where they are not loaded yet, load the libraries with the first call into them."""
    if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Finder())


class Late:
    """Stands for a module or a function by its full name, and finds it when it is called."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> Late:
        if name.startswith("__"):  # what Python asks of any object
            raise AttributeError(name)
        return Late(f"{self._name}.{name}")

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return pkgutil.resolve_name(self._name)(*args, **kwargs)


class _Finder(importlib.abc.MetaPathFinder):
    """Gives those files an ``import`` of their own; modules that they import in turn keep Python's."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        spec = PathFinder.find_spec(fullname, path, target) if fullname in _USERS else None
        if spec is not None and spec.loader is not None:
            spec.loader.exec_module = _importing_late(spec.loader.exec_module)  # type: ignore[method-assign, assignment]
        return spec


def _importing_late(execute: Callable[[ModuleType], None]) -> Callable[[ModuleType], None]:
    def execute_importing_late(module: ModuleType) -> None:
        module.__dict__["__builtins__"] = vars(builtins) | {"__import__": _import}
        execute(module)

    return execute_importing_late


def _import(name: str, *scope_and_names: Any) -> Any:
    return Late(name) if name.partition(".")[0] in _LIBRARIES else __import__(name, *scope_and_names)
