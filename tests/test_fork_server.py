"""The tests' own tools: forked commands behave as Python's own, and toy options are those of fairseq's commands."""

import functools
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from fairseq.dataclass.utils import convert_namespace_to_omegaconf

from tests import toy
from tests.fork_server import PYTHON
from tests.waiting import wait_until_gone

pytestmark = pytest.mark.slow
forks = pytest.mark.skipif(not hasattr(os, "pidfd_open"), reason="nothing is forked here")

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


@forks
@pytest.mark.parametrize("program", ["talk", "refuse", "die"])
def test_it_ends_and_prints_as_python_would(program: str, folder: Path) -> None:
    def run(python: str) -> tuple[int, str, str]:
        command = [python, "-m", f"fairseq_cli.{program}", "--one", "two words"]
        environment = os.environ | {"WORD": "é"}
        done = subprocess.run(command, cwd=folder, input="typed", capture_output=True, text=True, env=environment)
        return done.returncode, done.stdout, done.stderr

    assert run(sys.executable) == run(PYTHON)


@forks
@pytest.mark.parametrize(
    ("number", "status", "said"), [(signal.SIGINT, 1, "stopped\n"), (signal.SIGTERM, -15, ""), (signal.SIGKILL, -9, "")]
)
def test_signals_reach_it_and_it_is_killed_with_what_stands_for_it(
    number: int, status: int, said: str, folder: Path
) -> None:
    options: dict[str, Any] = {"cwd": folder, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    # It minds Ctrl-C, whatever the tests themselves do.
    options["preexec_fn"] = functools.partial(signal.signal, signal.SIGINT, signal.SIG_DFL)
    process = subprocess.Popen([sys.executable, "-m", "fairseq_cli.wait"], **options)
    assert process.stdout is not None
    forked = int(process.stdout.readline())
    assert forked != process.pid
    process.send_signal(number)
    _, errors = process.communicate(timeout=120)
    assert (process.returncode, errors) == (status, said)
    wait_until_gone([forked])


def test_options_are_composed_as_by_fairseq(tmp_path: Path) -> None:
    """Also where an earlier line had the same options with other values, which stays as it is."""
    first = toy.train_args(tmp_path)
    expected = toy.composed(first)
    words = ["--lr", "0.5", "--adam-betas", "(0.8, 0.9)", "--restore-file", "a b/c=d.pt", "--domain-tags", "--bf16"]
    other = toy.train_args(tmp_path / "other", *words, "--encoder-normalize-before")
    assert toy.composed(other) == convert_namespace_to_omegaconf(other)
    assert toy.composed(first) == expected != toy.composed(other)
