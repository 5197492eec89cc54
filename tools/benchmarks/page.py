"""Write the tables of docs/results/speed.md, and run the benchmarks named there that have no stored results.

A marker is ``<!-- benchmark: VERB OPTION… -->``. The text between it and ``<!-- end -->`` is replaced after each verb,
so that results survive an interruption.
"""

from __future__ import annotations

import os
import re
import shlex
from argparse import ArgumentParser, Namespace
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from benchmarks.shared import results
from benchmarks.shared.runner import ROOT
from benchmarks.shared.tables import machine_line, table
from benchmarks.shared.verbs import parse

PAGE = ROOT / "docs" / "results" / "speed.md"
_MARK = re.compile(r"(<!-- benchmark: ([^\n]+) -->\n).*?(<!-- end -->)", re.DOTALL)


def add_options(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--against", type=Path, metavar="DIR", help="another checkout to compare with, for every verb with a table"
    )
    parser.add_argument("--results", type=Path, default=ROOT / "runs" / "speed", help="folder for JSON files")
    parser.add_argument("--anew", action="store_true", help="measure again even if there are stored results")
    parser.add_argument(
        "--only", nargs="+", default=[], metavar="VERB", help="measure only these verbs; keep the other tables"
    )
    parser.add_argument("--page", type=Path, default=PAGE, help="page to update")


def marked_commands(page: str) -> list[str]:
    """Return the commands in a page's markers, in order."""
    return [match[2] for match in _MARK.finditer(page)]


def measure(options: Namespace) -> dict[str, Any]:
    """Update the page, and return the commands that were measured."""
    measured = []
    for command in marked_commands(options.page.read_text(encoding="utf-8")):
        words = shlex.split(command)
        if options.only and words[0] not in options.only:
            continue
        kept = options.results / f"{re.sub('[^a-z0-9]+', '-', command)}.json"
        if options.anew or not kept.exists():
            words += ["--against", str(options.against.resolve())] if options.against else []
            results.write_result(kept, results.measure(parse(words), words))
            measured.append(" ".join(words))
        _replace(options.page, command, section(command, results.read_result(kept)))
    return {"measured": measured}


def section(command: str, result: Mapping[str, Any]) -> str:
    """Return the text between a marker and its end."""
    return f"`tools/benchmark.py {command}`: {machine_line(result)}.\n\n{table(result)}"


def _replace(page: Path, command: str, text: str) -> None:
    def new(match: re.Match[str]) -> str:
        return f"{match[1]}{text}{match[3]}" if match[2] == command else match[0]

    temporary = page.with_name(f".{page.name}.partial")
    temporary.write_text(_MARK.sub(new, page.read_text(encoding="utf-8")), encoding="utf-8")
    os.replace(temporary, page)
