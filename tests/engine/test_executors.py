"""Whatever is wrong with a cluster is said in one line, and soon."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Mapping
from pathlib import Path
from unittest.mock import patch

import pytest

from fairseq_ext.engine import executors
from fairseq_ext.engine.tasks import Engine, run_tasks
from fairseq_ext.inputs.errors import InputError
from tests.cluster import dask_cluster, in_fresh_process
from tests.engine.test_tasks import Square, Wait, wait_for
from tests.waiting import SECONDS

pytest.importorskip("distributed", reason="needs the package distributed")


# For an answer that never comes.
SHORT = {"_SCHEDULER_SECONDS": 0.5}


def refusal(folder: Path, scheduler: str, waits: Mapping[str, float], task: Wait | None = None) -> str:
    """What is said, after a check that it is one line."""
    message: str = in_fresh_process(said, folder, scheduler, waits, task)
    assert "\n" not in message
    return message


def said(folder: Path, scheduler: str, waits: Mapping[str, float], task: Wait | None = None) -> str:
    if task:
        wait_for_worker(scheduler)
    with patch.multiple(executors, **waits), pytest.raises(InputError) as refused:
        run_tasks(task or Square(), folder / "job", 2, Engine(scheduler=scheduler), "tasks")
    return str(refused.value)


def wait_for_worker(scheduler: str) -> None:
    """Until one has come, such that what follows may be impatient."""
    from distributed import Client

    with Client(scheduler_file=scheduler, timeout=SECONDS, set_as_default=False) as client:
        client.wait_for_workers(1, timeout=SECONDS)


@pytest.mark.parametrize("address", ["", "tcp://[::1", "absent.json"])
def test_what_is_no_address_is_not_tried(address: str, tmp_path: Path) -> None:
    assert said(tmp_path, address, SHORT).startswith(f"--scheduler {address}: neither an address")


@pytest.mark.slow
def test_an_address_where_nothing_listens_is_named(tmp_path: Path) -> None:
    assert "no Dask scheduler answers there" in refusal(tmp_path, "tcp://127.0.0.1:1", SHORT)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("victim", "seconds", "reason"),
    [(0, SECONDS, "the scheduler has ended"), (1, 3.0, "has had no workers for 3 s")],
)
def test_a_cluster_that_dies_is_one_line(victim: int, seconds: float, reason: str, tmp_path: Path) -> None:
    processes: list[int] = []

    def kill() -> None:
        wait_for(tmp_path / "pid0")
        os.kill(processes[victim], signal.SIGKILL)

    with dask_cluster(tmp_path, workers=1, processes=processes) as scheduler:
        threading.Thread(target=kill).start()
        message = refusal(tmp_path, str(scheduler), {"_WORKERS_SECONDS": seconds}, Wait())
    assert reason in message
    assert "run the same command again" in message
