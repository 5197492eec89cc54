"""An input error ends a command line with its one line, wherever it was raised."""

import errno
import functools
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from subprocess import PIPE
from typing import Any

import pytest

from fairseq_ext.base.errors import InputError, run_command, shown

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(autouse=True)
def _own_handler() -> Iterator[None]:
    """What a program does with SIGTERM is undone."""
    before = signal.getsignal(signal.SIGTERM)
    yield
    signal.signal(signal.SIGTERM, before)


def raising(error: BaseException) -> Callable[[], None]:
    def main() -> None:
        raise error

    return main


def end_of(error: BaseException) -> Any:
    with pytest.raises(SystemExit) as caught:
        run_command(raising(error))
    return caught.value.code


PROGRAM = """
import sys, tempfile, time
from fairseq_ext.base.errors import run_command

def main():
    with tempfile.TemporaryDirectory(dir=sys.argv[1]):
        print("ready", flush=True)
        while True:
            print("line", flush=True) if sys.argv[2] == "print" else time.sleep(0.05)

run_command(main)
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("what", "status", "said"),
    [
        (signal.SIGTERM, 143, "stopped; run the same command to continue\n"),
        (signal.SIGINT, 130, "stopped; run the same command to continue\n"),
        ("print", 141, ""),
    ],
)
def test_signals_and_a_closed_pipe_end_a_program_after_it_has_cleaned_up(
    what: Any, status: int, said: str, tmp_path: Path
) -> None:
    # Whoever runs the tests in the background has told them to ignore Ctrl-C.
    heeding: Any = functools.partial(signal.signal, signal.SIGINT, signal.SIG_DFL)
    command, pipes = [sys.executable, "-c", PROGRAM, str(tmp_path), str(what)], {"stdout": PIPE, "stderr": PIPE}
    with subprocess.Popen(command, cwd=ROOT, text=True, preexec_fn=heeding, **pipes) as process:
        try:
            assert process.stdout.readline() == "ready\n"
            process.stdout.close() if what == "print" else process.send_signal(what)
            assert process.wait(120) == status
            assert process.stderr.read() == said
        finally:
            process.kill()
    assert not list(tmp_path.iterdir())


def test_names_with_line_breaks_and_control_characters_are_escaped() -> None:
    message = "a\nb\r\x1b[31m\u2028\ud800.yaml: ‘é’ is missing; give one"
    assert end_of(InputError(message)) == r"a\nb\r\x1b[31m\u2028\ud800.yaml: ‘é’ is missing; give one"


@pytest.mark.parametrize("number", [errno.EACCES, errno.ENOSPC])
def test_system_errors_are_one_line(number: int) -> None:
    line = end_of(OSError(number, "no such luck", "a\nb"))
    assert line == f"[Errno {number}] no such luck: 'a\\nb'; correct this and run the same command again"
    with pytest.raises(FileNotFoundError):  # a mistake of the program keeps its traceback
        run_command(lambda: print(Path("absent").read_text()))


@pytest.mark.parametrize(
    "error", [MemoryError(), ImportError("libtorch.so: failed to map segment from\nshared object")]
)
def test_too_little_memory_is_one_line(error: Exception) -> None:
    assert str(end_of(error)).startswith("out of memory (")
    assert "\n" not in end_of(error)
    with pytest.raises(RuntimeError, match="else"):
        run_command(raising(RuntimeError("else")))


@pytest.mark.parametrize("value", ["x" * 10_000_000, list(range(10**6)), b"\n" * 1000])
def test_shown_values_are_short(value: Any) -> None:
    assert len(shown(value)) <= 100
    assert shown(value).isprintable()
