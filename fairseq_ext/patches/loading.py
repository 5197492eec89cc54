"""Load fairseq in half the time, without scikit-learn and SciPy and with garbage collection off.

These libraries take as long to load as torch. Only four functions in two of fairseq's files use them: F1 and
correlations in a criterion, ROC curves in a speech task. Loading creates a million objects, which the garbage collector
would scan repeatedly in vain. This file does not import fairseq, because it must run first.
"""

from __future__ import annotations

import builtins
import gc
import pkgutil
from collections.abc import Callable
from types import ModuleType
from typing import Any

from fairseq_ext.patches import Execute, apply, hook_modules

_LARGE = {"torch", "fairseq"}
_LATE = {"sklearn", "scipy"}
_USERS_OF_LATE = {"fairseq.criterions.sentence_prediction", "fairseq.tasks.audio_classification"}


def load_fairseq_fast() -> None:
    """Make fairseq and torch load fast if they are not loaded yet; the libraries are imported at the first call."""
    hook_modules(_way_of)


class Late:
    """Proxy for a module or function, given by its full name and imported when called."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> Late:
        if name.startswith("__"):  # Python looks these names up on any object
            raise AttributeError(name)
        return Late(f"{self._name}.{name}")

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return pkgutil.resolve_name(self._name)(*args, **kwargs)


def _way_of(name: str) -> Callable[[Execute], Execute] | None:
    if name in _LARGE:
        return _without_collections
    return _importing_late if name in _USERS_OF_LATE else None


def _without_collections(execute: Execute) -> Execute:
    def execute_without_collections(module: ModuleType) -> None:
        was_enabled = gc.isenabled()
        gc.disable()
        try:
            execute(module)
        finally:
            if was_enabled:
                gc.freeze()  # exclude the objects from later collections as well
                gc.enable()

    return execute_without_collections


def _importing_late(execute: Execute) -> Execute:
    """Give a module a separate ``import`` function; modules that it imports keep Python's."""

    def execute_importing_late(module: ModuleType) -> None:
        module.__dict__["__builtins__"] = vars(builtins) | {"__import__": _import}
        execute(module)

    return execute_importing_late


def _import(name: str, *scope_and_names: Any) -> Any:
    return Late(name) if name.partition(".")[0] in _LATE else __import__(name, *scope_and_names)


def leave_compilers_out() -> None:
    """Keep torch from loading its compiler (two seconds) and symbolic algebra when nothing is compiled.

    torch would load the compiler with the first optimizer, to exclude these methods from compilation, and symbolic
    algebra with the first attention, to check a condition that may be symbolic.
    """
    import torch  # importing this package must not load torch
    from torch.optim import Optimizer

    for name in ("add_param_group", "load_state_dict", "state_dict", "zero_grad"):
        method = getattr(Optimizer, name)
        setattr(Optimizer, name, getattr(method, "__wrapped__", method))
    apply([(torch, "_check_with", _checking_what_does_not_hold)])


def _checking_what_does_not_hold(check_with: Callable[..., None]) -> Callable[..., None]:
    def check(error_type: Any, cond: Any, message: Any) -> None:
        if cond is not True:
            check_with(error_type, cond, message)

    return check
