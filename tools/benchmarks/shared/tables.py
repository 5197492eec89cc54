"""Format measurements as a Markdown table: medians with ranges in brackets, and ratios per round."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from benchmarks.shared.runner import BEFORE, HERE

Entry = Mapping[str, Any]
_ABSENT = "–"  # not supported by the code


def ratios(ours: Entry, theirs: Entry, figure: str) -> list[float]:
    """Return the speed ratio of two entries in each round.

    Args:
        ours: entry of :func:`~benchmarks.shared.runner.measure_cases`.
        theirs: entry to compare with.
        figure: ``rate`` (higher is faster), or seconds: ``wall`` or ``cpu``.
    """
    pairs = zip(ours["rounds"], theirs["rounds"], strict=True)
    if figure == "rate":
        return [a["rate"] / b["rate"] for a, b in pairs]
    return [b[figure] / a[figure] for a, b in pairs]


def spread(values: Sequence[float], digits: int = 2) -> str:
    """Return the median, with the lowest and highest value in brackets."""
    if len(values) == 1:
        return f"{values[0]:,.{digits}f}"
    return f"{statistics.median(values):,.{digits}f} ({min(values):,.{digits}f}–{max(values):,.{digits}f})"


def machine_line(result: Mapping[str, Any]) -> str:
    """Describe the machine in a sentence."""
    machine, options = result["machine"], result["options"]
    units = f" ({', '.join(machine['units'])})" if machine["units"] else ""
    words = [f"{machine['usable_cores']} cores of {machine['processor']}{units}", f"torch {machine['torch']}"]
    if "threads" in options:
        words.append(f"{options['threads']} thread(s), medians of {options['rounds']} rounds in turn")
    words.append(f"load before {machine['load'][0]}")
    codes = " against ".join(f"`{commit}`" for commit in result.get("codes", {}).values())
    return "; ".join([*words, *([f"code {codes}"] if codes else [])])


def table(result: Mapping[str, Any]) -> str:
    """Return a table with one row per case; columns without values are left out.

    The previous code has no columns: its speed is shown as ratios, and other figures only if they differ.
    """
    found = {(entry["case"], entry["code"]): entry for entry in result["series"]}
    names = dict.fromkeys(case for case, _ in found)
    columns = {heading: [cell(name) for name in names] for heading, cell in _columns(result, found).items()}
    columns = {heading: cells for heading, cells in columns.items() if set(cells) - {"", _ABSENT}}
    lines = [["", *columns], ["---", *["---:"] * len(columns)], *zip(names, *columns.values(), strict=True)]
    return "".join(f"| {' | '.join(cells)} |\n" for cells in lines)


def _columns(result: Mapping[str, Any], found: Mapping[tuple[str, str], Entry]) -> dict[str, Callable[[str], str]]:
    """Return functions that format the cells of a case, by heading."""
    has_rates = any("rate" in figures for entry in found.values() for figures in entry["rounds"])
    speed = "rate" if has_rates else "wall"
    facts = dict.fromkeys(fact for entry in found.values() for fact in entry.get("facts", {}))
    columns: dict[str, Callable[[str], str]] = {}

    def add(heading: str, cell: Callable[[Entry], str]) -> None:
        columns[heading] = lambda name: _cell(found.get((name, HERE)), cell)

    def add_changing(heading: str, cell: Callable[[Entry], str]) -> None:
        def both(entry: Entry) -> str:
            now, then = cell(entry), _cell(found.get((entry["case"], BEFORE)), cell)
            return now if then in ("", _ABSENT, now) else f"{now}, before {then}"

        add(heading, both)

    def compared(entry: Entry) -> str:
        told = {name: _ratio(entry, found.get((name, HERE)), speed) for name in result["baselines"][entry["case"]]}
        return "; ".join(f"{ratio} of {name}" for name, ratio in told.items() if ratio)

    add(result["unit"] if has_rates else "seconds", lambda entry: _figures(entry, speed))
    add("CPU seconds", lambda entry: _figures(entry, "cpu"))
    add_changing("peak, MiB", _peak)
    for fact in facts:
        add_changing(fact, partial(_fact, fact))
    add("compared", compared)
    for figure, heading in ((speed, "times before"), ("cpu", "times before, by CPU")):
        add(heading, partial(_times_before, found, result["baselines"], figure))
    return columns


def _cell(entry: Entry | None, cell: Callable[[Entry], str]) -> str:
    return "" if entry is None else _ABSENT if "missing" in entry else cell(entry) or ""


def _figures(entry: Entry, figure: str) -> str:
    values = [each[figure] for each in entry["rounds"] if figure in each]
    return spread(values, digits=0 if min(values) >= 100 else 1 if min(values) >= 10 else 2) if values else ""


def _peak(entry: Entry) -> str:
    peaks = [each["peak"] for each in (entry, *entry["rounds"]) if "peak" in each]
    return f"{max(peaks):,.0f}" if peaks else ""


def _times_before(
    found: Mapping[tuple[str, str], Entry], baselines: Mapping[str, Sequence[str]], figure: str, entry: Entry
) -> str:
    """Return the ratios to the same case in the previous code; to its baseline if the previous code lacks the case."""
    name = entry["case"]
    before = found.get((name, BEFORE))
    if before and "missing" in before and baselines[name]:
        told = baselines[name][-1]
        ratio = _ratio(entry, found.get((told, BEFORE)), figure)
        return ratio and f"{ratio} of {told}"
    return _ratio(entry, before, figure)


def _fact(name: str, entry: Entry) -> str:
    value = entry.get("facts", {}).get(name)
    return "" if value is None else f"{value:,}" if isinstance(value, int) else f"{value:,.2f}"


def _ratio(ours: Entry, theirs: Entry | None, figure: str) -> str:
    if not theirs or any(figure not in each for each in (*ours["rounds"], *theirs["rounds"])) or not theirs["rounds"]:
        return ""
    return spread(ratios(ours, theirs, figure))
