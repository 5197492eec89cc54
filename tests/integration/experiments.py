"""Whole experiments by one command, each run once, and what holds of every kind."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.recorded import recorded_results, results_of, shapes_of

ROOT = Path(__file__).resolve().parents[2]


def run_experiment(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the command of an experiment of any kind."""
    command = [sys.executable, "-m", "fairseq_ext.cli", "run", *arguments]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    return subprocess.run(command, capture_output=True, text=True, env=environment, check=False)


def run_whole(path: Path, *options: str) -> Path:
    """Run an experiment, and return its work directory."""
    result = run_experiment(str(path), *options)
    assert result.returncode == 0, result.stderr[-2000:]
    return path.parent / "work"


def planned(path: Path, *options: str) -> list[str]:
    """The lines of a plan, in order."""
    result = run_experiment(str(path), "--dry-run", *options)
    assert result.returncode == 0, result.stderr[-2000:]
    return result.stdout.splitlines()


def check_nothing_is_left_to_do(path: Path) -> None:
    assert {line.split("/")[0].strip() for line in planned(path)} == {"up to date"}


def check_results_are_of_the_recorded_shape(path: Path, kind: str, **replaced: Any) -> None:
    """Those on which the tests of the report stand."""
    found, kept = (shapes_of(results) for results in (results_of(path), recorded_results(kind)))
    assert {**found, **replaced} == {**kept, **replaced}
