"""fairseq reads values of options with ``eval``; here they are read as what they look like, and nothing is run.

Its models, optimisers and commands call ``eval`` on text of the command line, of YAML and of checkpoints. A module's
function looks such a name up in the module's own globals before it looks among Python's, so one assignment for each
module of fairseq's closes all its calls, however many there are, and also those of modules that it imports later.
"""

from __future__ import annotations

import ast
import importlib.abc
import operator
import sys
from collections.abc import Callable, Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

from fairseq_ext.inputs.errors import InputError

_PACKAGES = {"fairseq", "fairseq_cli"}
# What fairseq's own defaults are written with: "[(512, 3)] * 20 + [(1024, 3)] * 4".
_OPERATORS: dict[type, Callable[[Any, Any], Any]] = {ast.Add: operator.add, ast.Mult: operator.mul}
_LONGEST_TEXT, _LONGEST_RESULT = 1_000_000, 10_000


class NotLiteralError(InputError, ValueError):
    """A value that is more than numbers, text and containers; argparse names the option of a ``ValueError``."""


def read_values_as_literals() -> None:
    """Let every ``eval`` in fairseq's modules, loaded or not yet, be :func:`evaluate_literal`."""
    for module in list(sys.modules.values()):
        spec = getattr(module, "__spec__", None)  # of a program too, which is not named after its file
        if spec is not None and _is_of_fairseq(spec.name):
            module.__dict__["eval"] = evaluate_literal
    if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Finder())


def evaluate_literal(text: str) -> Any:
    """The value of a Python literal, or of sums and products of literals.

    Raises:
        TypeError: if it is no text, as ``eval`` does; fairseq relies on that.
        NotLiteralError: if it is anything else: a name, a call, an attribute.
    """
    if not isinstance(text, str):
        raise TypeError(f"expected text, got {type(text).__name__}")
    try:
        if len(text) > _LONGEST_TEXT:
            raise ValueError
        return _value(ast.parse(text.strip(), mode="eval").body)
    except (SyntaxError, ValueError, TypeError, RecursionError, MemoryError):
        shown = text if len(text) <= 80 else f"{text[:80]}…"
        raise NotLiteralError(
            f"{shown!r} is not a plain value (numbers, text, lists of them): values of options are never run as code"
        ) from None


def _value(node: ast.expr) -> Any:
    if isinstance(node, ast.BinOp) and type(node.op) in _OPERATORS:
        left, right = _value(node.left), _value(node.right)
        if isinstance(node.op, ast.Mult) and _length(left) * _length(right) > _LONGEST_RESULT:
            raise ValueError
        return _OPERATORS[type(node.op)](left, right)
    if isinstance(node, ast.List | ast.Tuple):
        values = [_value(element) for element in node.elts]
        return values if isinstance(node, ast.List) else tuple(values)
    return ast.literal_eval(node)


def _length(factor: Any) -> float:
    """How often a factor repeats the other, or how long the one to repeat is."""
    return len(factor) if isinstance(factor, str | bytes | list | tuple) else abs(factor)


class _Finder(importlib.abc.MetaPathFinder):
    """Gives modules of fairseq's our ``eval`` before their first line runs; the other finders find them."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if not _is_of_fairseq(fullname):
            return None
        found = (each.find_spec(fullname, path, target) for each in sys.meta_path if each is not self)
        spec = next((spec for spec in found if spec is not None), None)
        if spec is not None and spec.loader is not None:
            spec.loader.exec_module = _with_literals(spec.loader.exec_module)  # type: ignore[method-assign, assignment]
        return spec


def _with_literals(execute: Callable[[ModuleType], None]) -> Callable[[ModuleType], None]:
    def execute_with_literals(module: ModuleType) -> None:
        module.__dict__["eval"] = evaluate_literal
        execute(module)

    return execute_with_literals


def _is_of_fairseq(name: str) -> bool:
    return name.partition(".")[0] in _PACKAGES
