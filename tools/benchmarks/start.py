"""Measure the start-up time of the tools by their --help, which is printed after all imports.

Each run is a new process. CPU time is more reliable than elapsed time on a busy machine.
"""

from __future__ import annotations

import subprocess
import sys
from argparse import ArgumentParser, Namespace
from functools import partial
from pathlib import Path

from benchmarks.shared.cases import Case, Ready
from fairseq_ext.cli.main import VERBS

UNIT = "starts/s"
_FAIRSEQ = ("train", "generate", "interactive", "validate", "score", "preprocess")
_IMPORTS = ("pass", "import torch", "import fairseq_ext; fairseq_ext.install()")
_PYTHON = (sys.executable, "-P")


def add_options(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--fairseq", nargs="*", default=list(_FAIRSEQ), help="tools of fairseq to measure, with our user directory"
    )
    parser.add_argument("--verbs", nargs="*", default=list(VERBS), help="verbs of fairseq-ext to measure")


def cases(options: Namespace) -> list[Case]:
    found = [Case(f"python -c {code!r}", partial(_code, code)) for code in _IMPORTS]
    for tool in options.fairseq:
        found.append(Case(f"fairseq-{tool}", partial(_fairseq, tool)))
    for name in options.verbs:
        found.append(Case(f"fairseq-ext {name}", partial(_verb, name)))
    return found


def _code(code: str, folder: Path) -> Ready:
    return _prepare([*_PYTHON, "-c", code], folder)


def _fairseq(tool: str, folder: Path) -> Ready:
    user_dir = ["--user-dir", str(_checkout() / "fairseq_ext")] if tool != "score" else []
    has_own_start = (_checkout() / "fairseq_ext" / "tool.py").exists()
    program = ["fairseq_ext.tool", tool] if has_own_start else [f"fairseq_cli.{tool}"]
    return _prepare([*_PYTHON, "-m", *program, *user_dir, "--help"], folder)


def _verb(name: str, folder: Path) -> Ready:
    return _prepare([*_PYTHON, "-m", "fairseq_ext.cli", name, "--help"], folder)


def _checkout() -> Path:
    import fairseq_ext

    return Path(fairseq_ext.__file__).resolve().parents[1]


def _prepare(command: list[str], folder: Path) -> Ready:
    def run() -> None:
        subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, check=True)

    return Ready(run)
