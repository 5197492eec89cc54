"""Steps at once: when each begins, how many, with how many threads, and what a failure, a stop or a kill leaves."""

import errno
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from subprocess import PIPE

import pytest

from fairseq_ext.base import steps as engine_steps
from fairseq_ext.base.errors import InputError
from fairseq_ext.base.stages import Stage, run_chosen
from fairseq_ext.base.steps import Step, run_steps
from tests.waiting import wait_until, wait_until_gone

ROOT = Path(__file__).resolve().parents[2]
CHILD = "import os, time; print(os.getpid(), flush=True); time.sleep(600)"
PARENT = "import sys; from fairseq_ext.base.children import run_child; run_child([sys.executable, *sys.argv[1:]])"
needs_proc = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")


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
@needs_proc
def test_what_stops_the_command_stops_its_steps(tmp_path: Path) -> None:
    command = subprocess.Popen([sys.executable, "-c", STOPPED, str(tmp_path)], stderr=subprocess.DEVNULL, cwd=ROOT)
    wait_until(lambda: len(list(tmp_path.glob("pid*"))) == 2, "the steps did not begin")
    command.send_signal(signal.SIGINT)  # to the command alone, which is less than what Ctrl-C does
    assert command.wait(60) == 130
    wait_until_gone([int(path.name[3:]) for path in tmp_path.glob("pid*")])
    run_steps([step(tmp_path / name) for name in "ab"])  # no lock is held


@needs_proc
def test_a_child_ends_with_a_killed_parent() -> None:
    command = [sys.executable, "-c", PARENT, "-c", CHILD]
    with subprocess.Popen(command, cwd=ROOT, stdout=PIPE, text=True) as parent:
        assert parent.stdout is not None
        child = int(parent.stdout.readline())
        parent.kill()
    wait_until_gone([child])


# Stages


def stage(output: Path, *inputs: Path, build: Callable[[Path], None] = nothing, early: bool = False) -> Stage:
    return Stage(output.name, lambda: [Step(output, inputs, {}, build)], early=early)


def test_mistakes_of_late_stages_come_before_anything_runs(tmp_path: Path) -> None:
    def fail() -> list[Step]:
        raise InputError("no such set")

    with pytest.raises(InputError, match="no such set"):
        run_chosen([stage(tmp_path / "one"), Stage("two", fail)])
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
def test_with_several_jobs_trainings_of_neighbouring_stages_run_at_once(tmp_path: Path) -> None:
    wait = partial(meet, tmp_path / "meeting")
    a, b = (stage(tmp_path / name, build=wait, early=True) for name in "ab")
    # Its inputs are not there before both are done.
    c = stage(tmp_path / "c", tmp_path / "a", tmp_path / "b" / "step.json", early=True)
    run_chosen([a, b, c], jobs=2)
    assert (tmp_path / "c").is_dir()
