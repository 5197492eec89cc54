"""An input error ends a command line with its one line, wherever it was raised."""

from __future__ import annotations

import errno
import functools
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from fairseq_ext.inputs.errors import InputError, run_command, shown

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(autouse=True)
def _own_handler() -> Callable[[], None]:
    """What a program does with SIGTERM is undone."""
    before = signal.getsignal(signal.SIGTERM)
    yield
    signal.signal(signal.SIGTERM, before)


def end_of(error: BaseException) -> Any:
    def main() -> None:
        raise error

    with pytest.raises(SystemExit) as caught:
        run_command(main)
    return caught.value.code


PROGRAM = """
import sys, tempfile, time
from fairseq_ext.inputs.errors import run_command

def main():
    with tempfile.TemporaryDirectory(dir=sys.argv[1]):
        print("ready", flush=True)
        while True:
            print("line", flush=True) if sys.argv[2] == "print" else time.sleep(0.05)

run_command(main)
"""


@contextmanager
def program(folder: Path, what: str) -> Iterator[subprocess.Popen]:
    """A program that prints or waits until it is stopped, with a temporary folder."""
    command = [sys.executable, "-c", PROGRAM, str(folder), what]
    # Whoever runs the tests in the background has told them to ignore Ctrl-C.
    heeding: Any = functools.partial(signal.signal, signal.SIGINT, signal.SIG_DFL)
    process = subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, preexec_fn=heeding
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        yield process
    finally:
        process.kill()


@pytest.mark.parametrize(("number", "status"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_signals_end_a_program_after_it_has_cleaned_up(number: int, status: int, tmp_path: Path) -> None:
    with program(tmp_path, "wait") as process:
        process.send_signal(number)
        _, error = process.communicate(timeout=120)
    assert (process.returncode, error) == (status, "stopped; run the same command to continue\n")
    assert not list(tmp_path.iterdir())


def test_a_reader_that_has_gone_is_no_traceback(tmp_path: Path) -> None:
    with program(tmp_path, "print") as process:
        assert process.stdout is not None
        process.stdout.close()
        assert process.wait(120) == 141
        assert process.stderr is not None
        assert process.stderr.read() == ""


def test_names_with_line_breaks_and_control_characters_are_escaped() -> None:
    message = "a\nb\r\x1b[31m\u2028\ud800.yaml: ‘é’ is missing; give one"
    assert end_of(InputError(message)) == r"a\nb\r\x1b[31m\u2028\ud800.yaml: ‘é’ is missing; give one"


@pytest.mark.parametrize("number", [errno.EACCES, errno.ENOSPC])
def test_what_the_disk_or_missing_rights_forbid_is_one_line(number: int) -> None:
    line = end_of(OSError(number, "no such luck", "a\nb"))
    assert line == f"[Errno {number}] no such luck: 'a\\nb'; correct this and run the same command again"
    with pytest.raises(FileNotFoundError):  # a mistake of the program keeps its traceback
        run_command(lambda: print(Path("absent").read_text()))


@pytest.mark.parametrize("value", ["x" * 10_000_000, list(range(10**6)), b"\n" * 1000])
def test_shown_values_are_short(value: Any) -> None:
    assert len(shown(value)) <= 100
    assert shown(value).isprintable()
