"""Grids: the values that are tried of a system's options, ``tune`` in the file, and the name of each combination."""

from __future__ import annotations

import contextlib
import math
import re
from collections.abc import Collection, Mapping
from itertools import product
from typing import Any

from fairseq_ext.inputs.errors import shown

# By option, which is written with hyphens, the values in the order of the file.
Grid = Mapping[str, tuple[Any, ...]]
# A value is part of the name of its trial's directory.
_WORD = re.compile(r"[A-Za-z0-9_.,+()-][A-Za-z0-9_.,+() -]*")
_MOST_TRIALS = 100
# Trials with different values of these cannot be compared.
_NEVER_TUNED = (
    *("arch", "task", "criterion", "seed", "train-domains", "tokens-per-sample"),
    *("best-checkpoint-metric", "maximize-best-checkpoint-metric"),
)


def check_grid(values_by_option: Mapping[str, Any]) -> Grid:
    """The grid of a section ``tune``, lists of values by option; a ValueError names the option of a mistake."""
    grid: dict[str, tuple[Any, ...]] = {}
    for option, values in values_by_option.items():
        name = option.replace("_", "-")
        if name in _NEVER_TUNED:
            raise ValueError(f"{option}: makes trials that cannot be compared; write systems of their own")
        if not isinstance(values, list | tuple) or not values:
            raise ValueError(f"{option}: expected a list of values to try, got {shown(values)}")
        grid[name] = tuple(_check_value(value, option) for value in values)
        if len(set(map(_spelled, grid[name]))) < len(values):
            raise ValueError(f"{option}: a value is there twice; it is tried once")
    if math.prod(map(len, grid.values())) > _MOST_TRIALS:
        raise ValueError(f"more than {_MOST_TRIALS} trials of a system; try fewer values")
    return grid


def combinations(grid: Grid) -> list[dict[str, Any]]:
    """All combinations of values by option, in the order of the file; the last option changes first."""
    return [dict(zip(grid, values, strict=True)) for values in product(*grid.values())]


def name_of(values: Mapping[str, Any]) -> str:
    """A combination as text, ``lr=0.002,sentence-avg=true``."""
    return ",".join(f"{option}={_spelled(value)}" for option, value in values.items())


def with_values(options: Mapping[str, Any], values: Mapping[str, Any]) -> dict[str, Any]:
    """Options with these values, however the options are spelled."""
    return {**without(options, values), **values}


def without(options: Mapping[str, Any], names: Collection[str]) -> dict[str, Any]:
    """The options except some, which are named with hyphens."""
    return {option: value for option, value in options.items() if option.replace("_", "-") not in names}


def _spelled(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _check_value(value: Any, option: str) -> Any:
    """A number, true or false, or a word; YAML 1.1 reads 1e-5, which has no dot, as text."""
    if isinstance(value, str):
        with contextlib.suppress(ValueError):
            value = float(value)
    is_number = isinstance(value, int) or (isinstance(value, float) and math.isfinite(value))
    if is_number or (isinstance(value, str) and _WORD.fullmatch(value)):
        return value
    raise ValueError(f"{option}: expected numbers, words, true or false, got {shown(value)}")
