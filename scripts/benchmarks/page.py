"""Write the tables of docs/results/speed.md: measure what its marks name and no kept file has.

A mark is ``<!-- benchmark: VERB OPTION… -->``, and what stands from there to ``<!-- end -->`` is written anew, after
each verb, so that nothing is lost when this is stopped.
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
    parser.add_argument("--against", type=Path, metavar="DIR", help="another checkout, for every verb that has a table")
    parser.add_argument("--results", type=Path, default=ROOT / "runs" / "speed", help="where JSON files are kept")
    parser.add_argument("--anew", action="store_true", help="measure also what a kept file has")
    parser.add_argument("--only", nargs="+", default=[], metavar="VERB", help="measure these; of the rest, keep tables")
    parser.add_argument("--page", type=Path, default=PAGE, help="the page")


def marked_commands(page: str) -> list[str]:
    """What the marks of a page name, in order."""
    return [match[2] for match in _MARK.finditer(page)]


def measure(options: Namespace) -> dict[str, Any]:
    """Bring the page up to date; the commands that were measured now."""
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
    """What stands between a mark and its end."""
    return f"`scripts/benchmark.py {command}`: {machine_line(result)}.\n\n{table(result)}"


def _replace(page: Path, command: str, text: str) -> None:
    def new(match: re.Match[str]) -> str:
        return f"{match[1]}{text}{match[3]}" if match[2] == command else match[0]

    temporary = page.with_name(f".{page.name}.partial")
    temporary.write_text(_MARK.sub(new, page.read_text(encoding="utf-8")), encoding="utf-8")
    os.replace(temporary, page)
