"""Programs beside each other: how many, with how many threads, and what is left when one fails."""

from __future__ import annotations

import os
import threading

import pytest

from fairseq_ext.engine import side_by_side
from fairseq_ext.engine.side_by_side import run_side_by_side

WAIT_SECONDS = 60


@pytest.fixture(autouse=True)
def _machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(side_by_side, "_cores", lambda: 6)
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
    monkeypatch.setattr(side_by_side, *(("_cores", lambda: 1) if machine == "one core" else ("_has_gpu", lambda: True)))
    seen = []
    run_side_by_side([lambda: seen.append((threading.current_thread(), os.environ.get("OMP_NUM_THREADS")))] * 2)
    assert seen == [(threading.main_thread(), None)] * 2


def test_after_a_failure_what_runs_is_finished_and_no_more_begun(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(side_by_side, "_cores", lambda: 2)
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
