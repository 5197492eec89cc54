"""A command that is forked behaves as Python's own, which is asked beside it."""

from __future__ import annotations

import functools
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.engine.test_children import is_running, wait_until_gone
from tests.fork_server import PYTHON

pytestmark = [pytest.mark.slow, pytest.mark.skipif(not hasattr(os, "pidfd_open"), reason="nothing is forked here")]

PROGRAMS = {
    "talk": """
import os, sys
print(sys.argv[1:], sys.stdin.read(), os.environ.get("WORD"), os.getcwd(), __name__, sys.path[0], "Server" in globals())
print("said", file=sys.stderr)
""",
    "refuse": "raise SystemExit('refused')",
    "die": "import os; os.kill(os.getpid(), 9)",
    "wait": """
import os, sys, time
try:
    print(os.getpid(), flush=True)
    time.sleep(60)
except KeyboardInterrupt:
    sys.exit("stopped")
""",
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The programs, as modules of a package that is forked."""
    package = tmp_path / "fairseq_cli"
    package.mkdir()
    (package / "__init__.py").touch()  # or the true one, where PYTHONPATH has it, would come first
    for name, text in PROGRAMS.items():
        (package / f"{name}.py").write_text(text, encoding="utf-8")
    return tmp_path


def run(python: str, folder: Path, program: str, *options: str, **changes: str) -> tuple[int, str, str]:
    command = [python, *options, "-m", f"fairseq_cli.{program}", "--one", "two words"]
    done = subprocess.run(
        command, cwd=folder, input="typed", capture_output=True, text=True, env=os.environ | changes, check=False
    )
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize("program", ["talk", "refuse", "die"])
def test_it_ends_and_prints_as_python_would(program: str, folder: Path) -> None:
    assert run(sys.executable, folder, program, WORD="é") == run(PYTHON, folder, program, WORD="é")


def start(folder: Path) -> tuple[subprocess.Popen[str], int]:
    """A command that waits, and the process that it is; it minds Ctrl-C, whatever the tests themselves do."""
    options: dict[str, Any] = {"cwd": folder, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    options["preexec_fn"] = functools.partial(signal.signal, signal.SIGINT, signal.SIG_DFL)
    process = subprocess.Popen([sys.executable, "-m", "fairseq_cli.wait"], **options)
    assert process.stdout is not None
    return process, int(process.stdout.readline())


@pytest.mark.parametrize(("number", "status", "said"), [(signal.SIGINT, 1, "stopped\n"), (signal.SIGTERM, -15, "")])
def test_signals_reach_it(number: int, status: int, said: str, folder: Path) -> None:
    process, _ = start(folder)
    process.send_signal(number)
    _, errors = process.communicate(timeout=120)
    assert (process.returncode, errors) == (status, said)


def test_it_is_killed_with_what_stands_for_it(folder: Path) -> None:
    process, forked = start(folder)
    assert forked != process.pid
    assert is_running(forked)
    process.kill()
    process.communicate()
    wait_until_gone([forked])
