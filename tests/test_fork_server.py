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
    "status": "import sys; sys.exit(7)",
    "threads": """
import atexit, threading, time
atexit.register(print, "at last")
threading.Thread(target=lambda: [time.sleep(0.2), print("a thread")]).start()
print("main")
""",
    "die": "import os; os.kill(os.getpid(), 9)",
    "wait": """
import os, sys, time
try:
    print(os.getpid(), flush=True)
    time.sleep(60)
except KeyboardInterrupt:
    sys.exit("stopped")
""",
    "fail": "print(1 / 0)",
    "server": "import os; print(len(os.listdir(f'/proc/{os.getppid()}/task')))",
    "loaded": "import sys; print('fairseq.tasks' in sys.modules, 'fairseq_ext' in sys.modules)",
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


@pytest.mark.parametrize("options", [(), ("-P",)])
def test_a_line_that_begins_with_fairseq_is_run_as_pythons(options: tuple[str, ...], tmp_path: Path) -> None:
    """The kind of line with which options are read; here fairseq is a module that hides the true one."""
    line = "import fairseq; import sys; print(sys.argv, repr(sys.path[0]), __name__, 'torch' in sys.modules)"
    folder = tmp_path / "safe"
    (folder / "fairseq").mkdir(parents=True)
    (folder / "fairseq" / "__init__.py").touch()
    environment = os.environ | {"PYTHONPATH": str(folder)}
    printed = [
        subprocess.run(
            [python, *options, "-c", line, "--one", "two"], env=environment, capture_output=True, text=True, check=True
        ).stdout
        for python in (sys.executable, PYTHON)
    ]
    assert printed[0] == printed[1].replace("False", "True")


@pytest.mark.parametrize("program", ["talk", "refuse", "status", "threads", "die"])
def test_it_ends_and_prints_as_python_would(program: str, folder: Path) -> None:
    assert run(sys.executable, folder, program, WORD="é") == run(PYTHON, folder, program, WORD="é")


def test_the_search_path_is_pythons(folder: Path) -> None:
    assert run(sys.executable, folder, "talk", "-P")[0] == 1  # the package is in this folder, which is not searched
    options = {"PYTHONPATH": str(folder)}
    assert run(sys.executable, folder, "talk", "-P", **options) == run(PYTHON, folder, "talk", "-P", **options)


def test_a_mistake_is_a_traceback(folder: Path) -> None:
    status, printed, said = run(sys.executable, folder, "fail")
    assert (status, printed) == (1, "")
    assert said.startswith("Traceback (most recent call last):\n")
    assert said.endswith("\nZeroDivisionError: division by zero\n")


def test_the_server_has_one_thread_as_it_forks(folder: Path) -> None:
    assert run(sys.executable, folder, "server")[1] == "1\n"


def test_fairseq_and_the_project_are_loaded(folder: Path) -> None:
    assert run(sys.executable, folder, "loaded")[1] == "True True\n"
    assert run(PYTHON, folder, "loaded")[1] == "False False\n"
    again = subprocess.run([sys.executable, "-c", PROGRAMS["loaded"]], capture_output=True, text=True, check=True)
    assert again.stdout == "False False\n"  # whatever is no module of ours is left to Python


def start(folder: Path, action: Any = signal.SIG_DFL) -> tuple[subprocess.Popen[str], int]:
    """A command that waits, and the process that it is; Ctrl-C is ignored or not, whatever the tests themselves do."""
    options: dict[str, Any] = {"cwd": folder, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    options["preexec_fn"] = functools.partial(signal.signal, signal.SIGINT, action)
    process = subprocess.Popen([sys.executable, "-m", "fairseq_cli.wait"], **options)
    assert process.stdout is not None
    return process, int(process.stdout.readline())


@pytest.mark.parametrize(("number", "status", "said"), [(signal.SIGINT, 1, "stopped\n"), (signal.SIGTERM, -15, "")])
def test_signals_reach_it(number: int, status: int, said: str, folder: Path) -> None:
    process, _ = start(folder)
    process.send_signal(number)
    _, errors = process.communicate(timeout=120)
    assert (process.returncode, errors) == (status, said)


def test_a_signal_that_is_ignored_is_not_passed_on(folder: Path) -> None:
    process, _ = start(folder, signal.SIG_IGN)
    process.send_signal(signal.SIGINT)
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=120)
    assert process.returncode == -signal.SIGTERM


def test_it_is_killed_with_what_stands_for_it(folder: Path) -> None:
    process, forked = start(folder)
    assert forked != process.pid
    assert is_running(forked)
    process.kill()
    process.communicate()
    wait_until_gone([forked])
