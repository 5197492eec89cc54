"""Commands of experiments, as tests of several kinds run and kill them."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def run_experiment(*arguments: str) -> subprocess.CompletedProcess[str]:
    """An experiment's command, of any kind, and what it says."""
    command = [sys.executable, "-m", "fairseq_ext.cli", "run", *arguments]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    return subprocess.run(command, capture_output=True, text=True, env=environment, check=False)


def kill_in_every_step(command: Sequence[str], steps: Iterable[str]) -> None:
    """Start a command again and again, and kill it when it tells that the next of these steps has started."""
    for step in steps:
        with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
            assert process.stderr is not None
            for line in process.stderr:
                if line == f"{step}: started\n":
                    os.kill(process.pid, signal.SIGKILL)
        # A step may come to its end first.
        assert process.returncode in (-signal.SIGKILL, 0)
