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
_MOST_TRIALS, _LONGEST_NAME = 100, 100
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
        if name in grid:
            raise ValueError(f"{option}: is there twice, with '-' and with '_'; keep one of them")
        grid[name] = _check_values(values, option)
    if not grid:
        raise ValueError("names no option; give one with the values to try, or write null for no trials")
    if num_trials(grid) > _MOST_TRIALS:
        raise ValueError(f"more than {_MOST_TRIALS} trials of a system; try fewer values")
    if max(len(name_of(values)) for values in combinations(grid)) > _LONGEST_NAME:
        raise ValueError(f"trials would have names of more than {_LONGEST_NAME} letters; tune fewer options at once")
    return grid


def num_trials(grid: Grid) -> int:
    """How many combinations of values there are; 1 without a grid."""
    return math.prod(map(len, grid.values()))


def combinations(grid: Grid) -> list[dict[str, Any]]:
    """All combinations of values by option, in the order of the file; the last option changes first."""
    return [dict(zip(grid, values, strict=True)) for values in product(*grid.values())]


def name_of(values: Mapping[str, Any]) -> str:
    """A combination as text, ``lr=0.002,dropout=0.1``."""
    return ",".join(f"{option}={spelled(value)}" for option, value in values.items())


def spelled(value: Any) -> str:
    """A value as text; equal numbers are spelled alike."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def with_values(options: Mapping[str, Any], values: Mapping[str, Any]) -> dict[str, Any]:
    """Options with these values, however the options are spelled."""
    return {**without(options, values), **values}


def without(options: Mapping[str, Any], names: Collection[str]) -> dict[str, Any]:
    """The options except some, which are named with hyphens."""
    return {option: value for option, value in options.items() if option.replace("_", "-") not in names}


def _check_values(values: Any, option: str) -> tuple[Any, ...]:
    if not isinstance(values, list | tuple) or not values:
        raise ValueError(f"{option}: expected a list of values to try, got {shown(values)}")
    if len(values) > _MOST_TRIALS:
        raise ValueError(f"{option}: {len(values)} values are more than {_MOST_TRIALS}; try fewer")
    found = tuple(_check_value(value, option) for value in values)
    names = [spelled(value) for value in found]
    for number, value in enumerate(found):
        # 1 == 1.0, and the text "true" has the name of the value true.
        if value in found[:number] or names[number] in names[:number]:
            raise ValueError(f"{option}: {shown(values[number])} is there twice; a value is tried once")
    return found


def _check_value(value: Any, option: str) -> Any:
    """A number, true or false, or a word; YAML 1.1 reads 1e-5, which has no dot, as text."""
    for kind in (int, float) if isinstance(value, str) else ():
        with contextlib.suppress(ValueError):
            value = kind(value)
            break
    is_number = isinstance(value, int) or (isinstance(value, float) and math.isfinite(value))
    if is_number or (isinstance(value, str) and _WORD.fullmatch(value)):
        return value
    raise ValueError(f"{option}: expected numbers, words, true or false, got {shown(value)}")
