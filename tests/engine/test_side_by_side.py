"""Programs beside each other: how many, with how many threads, and what is left when one fails."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from fairseq_ext.engine import side_by_side
from fairseq_ext.engine.side_by_side import run_side_by_side
from tests.engine.test_children import wait_until_gone

ROOT = Path(__file__).resolve().parents[2]
WAIT_SECONDS = 60


@pytest.fixture(autouse=True)
def _machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(side_by_side, "cores", lambda: 6)
    monkeypatch.setattr(side_by_side, "_has_gpu", lambda: False)
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)


def test_works_run_at_once_and_share_the_cores() -> None:
    meeting, threads = threading.Barrier(2, timeout=WAIT_SECONDS), []

    def work() -> None:
        meeting.wait()  # broken if the other one does not run at the same time
        threads.append(os.environ["OMP_NUM_THREADS"])

    run_side_by_side([work, work])
    assert threads == ["3", "3"]
    assert "OMP_NUM_THREADS" not in os.environ


def test_no_more_at_once_than_four_and_all_are_done() -> None:
    running, most, done = [0], [0], []
    lock = threading.Lock()

    def work(number: int) -> None:
        with lock:
            running[0] += 1
            most[0] = max(most[0], running[0])
        threading.Event().wait(0.01)
        with lock:
            running[0] -= 1
            done.append(number)

    run_side_by_side([lambda number=number: work(number) for number in range(12)])
    assert sorted(done) == list(range(12))
    assert 2 <= most[0] <= 4


def test_a_users_number_of_threads_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "5")
    seen = []
    run_side_by_side([lambda: seen.append(os.environ["OMP_NUM_THREADS"])] * 2)
    assert seen == ["5", "5"]
    assert os.environ["OMP_NUM_THREADS"] == "5"


@pytest.mark.parametrize("machine", ["one core", "a GPU"])
def test_one_after_the_other_where_there_is_a_gpu_or_one_core(machine: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(side_by_side, *(("cores", lambda: 1) if machine == "one core" else ("_has_gpu", lambda: True)))
    seen = []
    run_side_by_side([lambda: seen.append((threading.current_thread(), os.environ.get("OMP_NUM_THREADS")))] * 2)
    assert seen == [(threading.main_thread(), None)] * 2


def test_after_a_failure_what_runs_is_finished_and_no_more_begun(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(side_by_side, "cores", lambda: 2)
    meeting, failing, done = threading.Barrier(2, timeout=WAIT_SECONDS), [], []

    def fail() -> None:
        failing.append(threading.current_thread())
        meeting.wait()
        raise ValueError("the first")

    def slow() -> None:
        meeting.wait()
        failing[0].join(WAIT_SECONDS)
        done.append("slow")

    with pytest.raises(ValueError, match="the first"):
        run_side_by_side([slow, fail, *[lambda: done.append("more")] * 50])
    assert done == ["slow"]


def test_what_waits_begins_behind_what_it_waits_for_and_others_pass_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(side_by_side, "cores", lambda: 2)
    passed, done = threading.Event(), []

    def first() -> None:
        assert passed.wait(WAIT_SECONDS)
        done.append("first")

    def passing() -> None:
        passed.set()

    run_side_by_side([first, lambda: done.append("second"), passing], after=[(), (0,), ()])
    assert done == ["first", "second"]


def test_what_waits_for_a_failure_is_not_begun() -> None:
    def fail() -> None:
        raise ValueError("the first")

    done: list[str] = []
    with pytest.raises(ValueError, match="the first"):
        run_side_by_side([fail, lambda: done.append("second"), lambda: done.append("third")], after=[(), (0,), (1,)])
    assert not done


# Two programs that say who they are, and wait.
STOPPED = r"""
import signal, sys
from fairseq_ext.engine import side_by_side
from fairseq_ext.engine.children import run_child
from fairseq_ext.inputs.errors import run_command

signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell starts what runs in the background without it
side_by_side.cores, side_by_side._has_gpu = lambda: 2, lambda: False
child = [sys.executable, "-c", "import os, time; os.write(1, b'%d\\n' % os.getpid()); time.sleep(600)"]
run_command(lambda: side_by_side.run_side_by_side([lambda: run_child(child)] * 2))
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
@pytest.mark.parametrize(("stop", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_what_stops_the_command_stops_all_programs(stop: signal.Signals, status: int) -> None:
    command = subprocess.Popen(
        [sys.executable, "-c", STOPPED], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT
    )
    assert command.stdout is not None
    children = [int(command.stdout.readline()) for _ in range(2)]
    command.send_signal(stop)  # to the command alone, which is less than what Ctrl-C does
    assert command.wait(WAIT_SECONDS) == status
    assert command.stderr is not None
    assert command.stderr.read() == "stopped; the same command goes on from here\n"
    wait_until_gone(children)
