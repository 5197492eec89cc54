"""Grids of option values to try (``tune`` in the file), and the names of their combinations."""

from __future__ import annotations

import contextlib
import math
import re
from collections.abc import Collection, Mapping
from itertools import product
from typing import Any

from fairseq_ext.base.errors import shown

# Values in file order, by option, spelled with hyphens.
Grid = Mapping[str, tuple[Any, ...]]
# Values are part of the names of trial directories.
_WORD = re.compile(r"[A-Za-z0-9_.,+()-][A-Za-z0-9_.,+() -]*")
_MOST_TRIALS = 100
# Trials that differ in these options cannot be compared.
_NEVER_TUNED = (
    *("arch", "task", "criterion", "seed", "train-domains", "tokens-per-sample"),
    *("best-checkpoint-metric", "maximize-best-checkpoint-metric"),
)


def check_grid(values_by_option: Mapping[str, Any]) -> Grid:
    """Check a section ``tune``, lists of values by option, and return its grid; a ValueError names the wrong option."""
    grid: dict[str, tuple[Any, ...]] = {}
    for option, values in values_by_option.items():
        name = option.replace("_", "-")
        if name in _NEVER_TUNED:
            raise ValueError(f"{option}: its values cannot be compared by validation; write a separate system for each")
        if not isinstance(values, list | tuple) or not values:
            raise ValueError(f"{option}: expected a list of values to try, got {shown(values)}")
        grid[name] = tuple(_check_value(value, option) for value in values)
        if len(set(map(_spelled, grid[name]))) < len(values):
            raise ValueError(f"{option}: a value occurs twice; remove one")
    if math.prod(map(len, grid.values())) > _MOST_TRIALS:
        raise ValueError(f"more than {_MOST_TRIALS} combinations of values; list fewer")
    return grid


def combinations(grid: Grid) -> list[dict[str, Any]]:
    """Return all combinations of values by option, in file order. The last option changes fastest."""
    return [dict(zip(grid, values, strict=True)) for values in product(*grid.values())]


def name_of(values: Mapping[str, Any]) -> str:
    """Return a combination as text, such as ``lr=0.002,sentence-avg=true``."""
    return ",".join(f"{option}={_spelled(value)}" for option, value in values.items())


def with_values(options: Mapping[str, Any], values: Mapping[str, Any]) -> dict[str, Any]:
    """Replace or add option values, whether options are spelled with hyphens or underscores."""
    return {**without(options, values), **values}


def without(options: Mapping[str, Any], names: Collection[str]) -> dict[str, Any]:
    """Return the options without ``names``, which are spelled with hyphens."""
    return {option: value for option, value in options.items() if option.replace("_", "-") not in names}


def _spelled(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _check_value(value: Any, option: str) -> Any:
    """Check that a value is a number, a boolean or a word. YAML 1.1 reads 1e-5, which has no dot, as text."""
    if isinstance(value, str):
        with contextlib.suppress(ValueError):
            value = float(value)
    is_number = isinstance(value, int) or (isinstance(value, float) and math.isfinite(value))
    if is_number or (isinstance(value, str) and _WORD.fullmatch(value)):
        return value
    raise ValueError(f"{option}: expected numbers, words, true or false, got {shown(value)}")
