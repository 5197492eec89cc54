"""Steps at once: when each begins, how many, with how many threads, and what a failure or a stop leaves."""

import errno
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from fairseq_ext.base import steps as engine_steps
from fairseq_ext.base.errors import InputError
from fairseq_ext.base.steps import Step, run_steps
from tests.base.test_children import wait_until_gone
from tests.waiting import wait_until

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(autouse=True)
def _machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine_steps, "cores", lambda: 4)
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)


def nothing(folder: Path) -> None:
    pass


def fill_the_disk(folder: Path) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def say(folder: Path) -> None:
    (folder / "process").write_text(str(os.getpid()))
    (folder / "threads").write_text(os.environ.get("OMP_NUM_THREADS", ""))


def meet(place: Path, folder: Path, count: int = 2) -> None:
    """Wait until so many steps are here at the same time."""
    place.mkdir(exist_ok=True)
    (place / str(os.getpid())).touch()
    wait_until(lambda: len(list(place.iterdir())) >= count, "nobody else came")


def wait_to_be_killed(place: Path, folder: Path) -> None:
    (place / f"pid{os.getpid()}").touch()
    time.sleep(600)


def step(output: Path, *inputs: Path, build: Callable[[Path], None] = nothing, at_once: bool = False) -> Step:
    return Step(output, inputs, {}, build, side_by_side=at_once)


@pytest.mark.slow
def test_several_steps_run_at_once_on_a_gpu_if_asked_to(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("torch.cuda.is_available", lambda: True)
    run_steps([step(tmp_path / name, build=partial(meet, tmp_path / "meeting")) for name in "ab"], jobs=2)
    run_steps([step(tmp_path / name, build=say, at_once=True) for name in "cd"])
    assert {(tmp_path / name / "process").read_text() for name in "cd"} == {str(os.getpid())}


@pytest.mark.slow
def test_steps_share_the_cores_whichever_are_finished(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    steps = [step(tmp_path / name, build=say, at_once=True) for name in "ab"]
    run_steps(steps)
    assert {(tmp_path / name / "threads").read_text() for name in "ab"} == {"2"}
    (tmp_path / "b" / "threads").unlink()
    run_steps(steps, jobs=2)
    assert (tmp_path / "b" / "threads").read_text() == "2"
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    run_steps([step(tmp_path / name, build=say) for name in "cd"], jobs=4)
    assert (tmp_path / "c" / "threads").read_text() == "3"


@pytest.mark.slow
def test_after_a_failure_what_runs_is_finished_and_no_other_begins(tmp_path: Path) -> None:
    full, beside = step(tmp_path / "full", build=fill_the_disk), step(tmp_path / "beside")
    with pytest.raises(InputError, match=f"^full: .*{os.strerror(errno.ENOSPC)}"):
        run_steps([full, beside, step(tmp_path / "after", tmp_path / "full")], jobs=2)
    assert [path.parent.name for path in tmp_path.glob("*/step.json")] == ["beside"]
    dies = step(tmp_path / "dies", build=lambda _: os.kill(os.getpid(), signal.SIGKILL))
    with pytest.raises(InputError, match="killed"):
        run_steps([dies, beside], jobs=2)


# Two steps that say who they are, and wait.
STOPPED = """
import signal, sys
from functools import partial
from pathlib import Path
from fairseq_ext.base.steps import Step, run_steps
from fairseq_ext.base.errors import run_command
from tests.base.test_steps_at_once import wait_to_be_killed

signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell starts what runs in the background without it
folder = Path(sys.argv[1])
steps = [Step(folder / name, [], {}, partial(wait_to_be_killed, folder)) for name in "ab"]
run_command(lambda: run_steps(steps, jobs=2))
"""


@pytest.mark.slow
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
def test_what_stops_the_command_stops_its_steps(tmp_path: Path) -> None:
    command = subprocess.Popen([sys.executable, "-c", STOPPED, str(tmp_path)], stderr=subprocess.DEVNULL, cwd=ROOT)
    wait_until(lambda: len(list(tmp_path.glob("pid*"))) == 2, "the steps did not begin")
    command.send_signal(signal.SIGINT)  # to the command alone, which is less than what Ctrl-C does
    assert command.wait(60) == 130
    wait_until_gone([int(path.name[3:]) for path in tmp_path.glob("pid*")])
    run_steps([step(tmp_path / name) for name in "ab"])  # no lock is held
