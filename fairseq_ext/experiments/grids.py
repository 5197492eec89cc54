"""Grids: the values that are tried of a system's options, ``tune`` in the file, and what each combination is called."""

from __future__ import annotations

import contextlib
import math
import re
from collections.abc import Collection, Mapping
from itertools import product
from typing import Any

from fairseq_ext.engine.fairseq_cli import check_option
from fairseq_ext.inputs.errors import InputError, shown
from fairseq_ext.inputs.sections import as_mapping

# By option, which is written with hyphens, the values in the order of the file.
Grid = Mapping[str, tuple[Any, ...]]
# A value is in the name of its trial's directory.
_WORD = re.compile(r"[A-Za-z0-9_.,+()-][A-Za-z0-9_.,+() -]*")
_MOST_TRIALS, _LONGEST_NAME = 100, 100
# With another value a trial is of another system, or its figure of another measure.
_NEVER_TUNED = (
    *("arch", "task", "criterion", "seed", "train-domains", "tokens-per-sample"),
    *("best-checkpoint-metric", "maximize-best-checkpoint-metric"),
)


def read_grid(section: Any, where: str) -> Grid:
    """The grid of a section ``tune``.

    Args:
        section: its content: a list of values by option.
        where: file and keys, for messages.

    Raises:
        InputError: naming an option that cannot be tuned, or a value that cannot be tried.
    """
    grid: dict[str, tuple[Any, ...]] = {}
    for option, values in as_mapping(section, where).items():
        check_option(option, where)
        name, place = option.replace("_", "-"), f"{where}: {option}"
        if name in _NEVER_TUNED:
            raise InputError(f"{place}: makes trials that cannot be compared; write systems of their own")
        if name in grid:
            raise InputError(f"{place}: is there twice, with '-' and with '_'; keep one of them")
        grid[name] = _read_values(values, place)
    if not grid:
        raise InputError(f"{where}: names no option; give one with the values to try, or write null for no trials")
    if num_trials(grid) > _MOST_TRIALS:
        raise InputError(f"{where}: more than {_MOST_TRIALS} trials of a system; try fewer values")
    if max(map(len, map(name_of, combinations(grid)))) > _LONGEST_NAME:
        raise InputError(f"{where}: trials would have names of more than {_LONGEST_NAME} letters; tune less at once")
    return grid


def num_trials(grid: Grid) -> int:
    """How many combinations of values there are; 1 without a grid."""
    return math.prod(map(len, grid.values()))


def combinations(grid: Grid) -> list[dict[str, Any]]:
    """All combinations of values by option, in the order of the file, the last option's changing first."""
    return [dict(zip(grid, values, strict=True)) for values in product(*grid.values())]


def name_of(values: Mapping[str, Any]) -> str:
    """A combination as text, ``lr=0.002,dropout=0.1``."""
    return ",".join(f"{option}={spelled(value)}" for option, value in values.items())


def spelled(value: Any) -> str:
    """A value as text; numbers that are equal are spelled alike."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def with_values(options: Mapping[str, Any], values: Mapping[str, Any]) -> dict[str, Any]:
    """Options with these values, however the options are spelled."""
    return {**without(options, values), **values}


def without(options: Mapping[str, Any], names: Collection[str]) -> dict[str, Any]:
    """The options but for some, which are named with hyphens."""
    return {option: value for option, value in options.items() if option.replace("_", "-") not in names}


def _read_values(values: Any, where: str) -> tuple[Any, ...]:
    if not isinstance(values, list) or not values:
        raise InputError(f"{where}: expected a list of values to try, got {shown(values)}")
    if len(values) > _MOST_TRIALS:
        raise InputError(f"{where}: {len(values)} values are more than {_MOST_TRIALS}; try fewer")
    found = tuple(_read_value(value, where) for value in values)
    names = [spelled(value) for value in found]
    for number, value in enumerate(found):
        # 1 == 1.0, and the word true would be called like true.
        if value in found[:number] or names[number] in names[:number]:
            raise InputError(f"{where}: {shown(values[number])} is there twice; a value is tried once")
    return found


def _read_value(value: Any, where: str) -> Any:
    """A number, true or false, or a word; YAML 1.1 reads 1e-5, which has no dot, as text."""
    for kind in (int, float) if isinstance(value, str) else ():
        with contextlib.suppress(ValueError):
            value = kind(value)
            break
    is_number = isinstance(value, int) or (isinstance(value, float) and math.isfinite(value))
    if is_number or (isinstance(value, str) and _WORD.fullmatch(value)):
        return value
    raise InputError(f"{where}: expected numbers, words, true or false, got {shown(value)}")
