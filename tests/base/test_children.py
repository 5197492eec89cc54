"""Children end with their parent, also where it is killed."""

import subprocess
import sys
from pathlib import Path
from subprocess import PIPE

import pytest

from tests.waiting import wait_until

ROOT = Path(__file__).resolve().parents[2]
CHILD = "import os, time; print(os.getpid(), flush=True); time.sleep(600)"
PARENT = "import sys; from fairseq_ext.base.children import run_child; run_child([sys.executable, *sys.argv[1:]])"


def is_running(process: int) -> bool:
    try:
        # A zombie that nobody waits for still has its number.
        return "State:\tZ" not in Path(f"/proc/{process}/status").read_text()
    except (FileNotFoundError, ProcessLookupError):  # before or after it was opened
        return False


def wait_until_gone(processes: list[int]) -> None:
    wait_until(lambda: not any(map(is_running, processes)), "a process outlives its parent")


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
def test_a_child_ends_with_a_killed_parent() -> None:
    command = [sys.executable, "-c", PARENT, "-c", CHILD]
    with subprocess.Popen(command, cwd=ROOT, stdout=PIPE, text=True) as parent:
        assert parent.stdout is not None
        child = int(parent.stdout.readline())
        parent.kill()
    wait_until_gone([child])
