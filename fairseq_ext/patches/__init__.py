"""Changes to fairseq, with reasons.

Each module lists its changes in ``PATCHES``: the module, class or dictionary that has a function (or other object), its
name there, and a function that returns its replacement, such as that of :func:`around`. This file does not import
fairseq.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from typing import Any

Patch = tuple[Any, str, Callable[[Any], Any]]
# Restores what has been changed, the last change first.
restoring = ExitStack()
_applied: set[tuple[int, str, Callable[[Any], Any]]] = set()


def around(function: Callable[..., Any]) -> Callable[[Any], Any]:
    """Return the change to a call of ``function``, which gets the original before the arguments."""

    def change(original: Any) -> Callable[..., Any]:
        return lambda *args, **kwargs: function(original, *args, **kwargs)

    return change


def apply(patches: Iterable[Patch]) -> None:
    """Replace functions of fairseq, until :func:`undo`. Applying a patch twice has no effect."""
    for owner, name, change in patches:
        if (id(owner), name, change) not in _applied:
            _applied.add((id(owner), name, change))
            old = owner[name] if isinstance(owner, dict) else getattr(owner, name, None)
            new = change(old)
            _replace(owner, name, functools.wraps(old)(new) if callable(old) else new)


def _replace(owner: Any, name: str, value: Any) -> None:
    if isinstance(owner, dict):
        restoring.callback(owner.__setitem__, name, owner[name])
        owner[name] = value
    elif hasattr(owner, name):
        old = inspect.getattr_static(owner, name)
        restoring.callback(setattr, owner, name, old)
        setattr(owner, name, staticmethod(value) if isinstance(old, staticmethod) else value)
    else:
        restoring.callback(delattr, owner, name)
        setattr(owner, name, value)


def undo() -> None:
    """Restore everything that has been changed."""
    _applied.clear()
    restoring.close()
