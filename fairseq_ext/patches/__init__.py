"""Changes to fairseq, with reasons.

Each module lists its changes in ``PATCHES``: the object that has a function, the name of the function, and a function
that wraps it. This file does not import fairseq.
"""

from __future__ import annotations

import functools
import importlib.abc
import sys
from collections.abc import Callable, Iterable, Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

Patch = tuple[Any, str, Callable[[Any], Any]]
# Executes a module, as a loader's ``exec_module`` does.
Execute = Callable[[ModuleType], None]
WayOf = Callable[[str], Callable[[Execute], Execute] | None]


def apply(patches: Iterable[Patch]) -> None:
    """Replace functions of fairseq. Applying a patch twice has no effect."""
    for owner, name, change in patches:
        function = getattr(owner, name)
        changes = getattr(function, "changes", ())
        if change not in changes:
            changed: Any = functools.wraps(function)(change(function))
            changed.changes = (*changes, change)
            setattr(owner, name, changed)


def hook_modules(way_of: WayOf) -> None:
    """Change how modules imported from now on are executed. A second call has no effect.

    ``way_of`` maps a module's name to a function that wraps Python's ``exec_module``; None leaves a module unchanged.
    """
    if not any(isinstance(finder, _Hook) and finder.way_of is way_of for finder in sys.meta_path):
        sys.meta_path.insert(0, _Hook(way_of))


class _Hook(importlib.abc.MetaPathFinder):
    """Delegate to the remaining finders, and wrap the loader of the module."""

    def __init__(self, way_of: WayOf) -> None:
        self.way_of = way_of

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        way = self.way_of(fullname)
        if way is None:
            return None
        others = sys.meta_path[sys.meta_path.index(self) + 1 :]
        found = (finder.find_spec(fullname, path, target) for finder in others)
        spec = next((spec for spec in found if spec is not None), None)
        if spec is not None and spec.loader is not None:
            spec.loader.exec_module = way(spec.loader.exec_module)  # type: ignore[method-assign, assignment]
        return spec
