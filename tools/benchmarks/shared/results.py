"""Store measurements as JSON, for later comparisons."""

from __future__ import annotations

import json
import os
from argparse import Namespace
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.shared.cases import Case
from benchmarks.shared.machine import commit_of, machine_facts
from benchmarks.shared.runner import checkouts, measure_cases
from benchmarks.shared.verbs import verb_module
from fairseq_ext.base.errors import InputError


def chosen_cases(options: Namespace) -> list[Case]:
    """Return the cases of a verb that match ``--only``, and their baselines.

    Raises:
        InputError: if no case matches.
    """
    cases = verb_module(options.verb).cases(options)
    wanted = {case.name for case in cases if not options.only or any(text in case.name for text in options.only)}
    if not wanted:
        raise InputError(f"--only: no case has {' or '.join(options.only)} in its name; choose one that --list shows")
    while more := {name for case in cases if case.name in wanted for name in case.baselines} - wanted:
        wanted |= more
    return [case for case in cases if case.name in wanted]


def measure(options: Namespace, words: Sequence[str]) -> dict[str, Any]:
    """Run the measurements of a command line.

    Returns:
        ``verb``, ``words``, ``machine``, ``options``; for a verb with cases also ``codes`` (the commit of each),
        ``unit``, ``baselines`` and ``series`` (see :func:`~benchmarks.shared.runner.measure_cases`), otherwise
        ``found``.
    """
    module = verb_module(options.verb)
    plain = {name: str(value) if isinstance(value, Path) else value for name, value in vars(options).items()}
    result = {"verb": options.verb, "words": list(words), "machine": machine_facts(), "options": plain}
    if not hasattr(module, "cases"):
        return result | {"found": module.measure(options)}
    cases = chosen_cases(options)
    return result | {
        "codes": {name: commit_of(folder) for name, folder in checkouts(options).items()},
        "unit": module.UNIT,
        "baselines": {case.name: case.baselines for case in cases},
        "series": measure_cases(cases, options, words, getattr(module, "ENVIRONMENT", {})),
    }


def write_result(path: Path, result: Mapping[str, Any]) -> None:
    """Write a result atomically."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.partial")
    temporary.write_text(json.dumps(result, indent=1, ensure_ascii=False, default=str) + "\n", encoding="utf-8")
    os.replace(temporary, path)


def read_result(path: Path) -> dict[str, Any]:
    """Read a result of :func:`write_result`.

    Raises:
        InputError: if the file has other contents; the message names the file.
    """
    try:
        result = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InputError(f"{path}: {error}; create it with tools/benchmark.py VERB --json {path}") from error
    if not isinstance(result, dict) or not {"verb", "machine", "options"} <= result.keys():
        raise InputError(f"{path}: is not a result of tools/benchmark.py; create it with --json")
    return result
