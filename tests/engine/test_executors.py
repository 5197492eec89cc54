"""Whatever is wrong with a cluster is said in one line, and soon."""

from __future__ import annotations

import os
import signal
import threading
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


def said(folder: Path, scheduler: str, task: Wait | None = None) -> str:
    """What is said where no answer comes for three seconds."""
    if task is not None:
        from distributed import Client

        with Client(scheduler_file=scheduler, timeout=SECONDS, set_as_default=False) as client:
            client.wait_for_workers(1, timeout=SECONDS)
    waits = {"_SCHEDULER_SECONDS": 0.5 if task is None else 60.0, "_WORKERS_SECONDS": 3.0}
    with patch.multiple(executors, **waits), pytest.raises(InputError) as refused:
        run_tasks(task or Square(), folder / "job", 2, Engine(scheduler=scheduler), "tasks")
    assert "\n" not in str(refused.value)
    return str(refused.value)


@pytest.mark.parametrize("address", ["", "tcp://[::1", "absent.json"])
def test_what_is_no_address_is_not_tried(address: str, tmp_path: Path) -> None:
    assert said(tmp_path, address).startswith(f"--scheduler {address}: unknown scheduler")


@pytest.mark.slow
def test_an_address_where_nothing_listens_is_named(tmp_path: Path) -> None:
    assert "no Dask scheduler answers" in in_fresh_process(said, tmp_path, "tcp://127.0.0.1:1")


@pytest.mark.slow
def test_a_cluster_whose_workers_die_is_one_line(tmp_path: Path) -> None:
    processes: list[int] = []

    def kill() -> None:
        wait_for(tmp_path / "pid0")
        os.kill(processes[1], signal.SIGKILL)

    with dask_cluster(tmp_path, workers=1, processes=processes) as scheduler:
        threading.Thread(target=kill).start()
        message = in_fresh_process(said, tmp_path, str(scheduler), Wait())
    assert "no worker for 3 s" in message
    assert "run the same command again" in message
