"""Jobs: every one is done exactly once, by whoever, and a dead or refusing worker is noticed."""

import os
import signal
import threading
import time
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from unittest.mock import patch

import pytest

from fairseq_ext.base import executors
from fairseq_ext.base.errors import InputError
from fairseq_ext.base.jobs import JOBS_DIR, Engine, fill_by_jobs, job_output, remove_jobs, run_jobs
from tests.cluster import dask_cluster, in_fresh_process
from tests.waiting import SECONDS, wait_until

ONE, TWO = Engine(workers=1), Engine(workers=2)


@dataclass(frozen=True)
class Square:
    """Writes its number's square, and returns its process's number; in a folder to meet in, not before a second one."""

    meeting: Path | None = None

    def __call__(self, index: int, output: Path) -> int:
        if self.meeting is not None:
            (self.meeting / str(os.getpid())).touch()
            wait_until(lambda: len(list(self.meeting.iterdir())) > 1, "no second process came")
        (output / "square").write_text(str(index * index))
        return os.getpid()


@dataclass(frozen=True)
class DieOnce:
    """The job with this number is killed the first time it runs."""

    mark: Path
    index: int = 2

    def __call__(self, index: int, output: Path) -> None:
        (output / "half").write_text("half")
        if index == self.index and not self.mark.exists():
            self.mark.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        (output / "whole").write_text("whole")


@dataclass(frozen=True)
class Refuse:
    """Refuses one number."""

    error: BaseException

    def __call__(self, index: int, output: Path) -> None:
        if index == 1:
            raise self.error


@dataclass(frozen=True)
class Wait:
    """Tells that it has begun, and waits."""

    def __call__(self, index: int, output: Path) -> None:
        (output.parents[1] / f"begun{index}").touch()
        time.sleep(600)


def _squares(folder: Path, count: int) -> list[str]:
    return [(job_output(folder, index) / "square").read_text() for index in range(count)]


@pytest.mark.parametrize("engine", [ONE, pytest.param(TWO, marks=pytest.mark.slow)], ids=["one", "two"])
def test_every_job_runs_and_none_twice(engine: Engine, tmp_path: Path) -> None:
    processes = run_jobs(Square(), tmp_path / "job", 5, engine, "squares")
    assert _squares(tmp_path / "job", 5) == ["0", "1", "4", "9", "16"]
    assert len(processes) == 5
    assert (os.getpid() in processes) == (engine is ONE)
    assert run_jobs(Square(), tmp_path / "job", 5, engine, "squares") == []
    assert len(run_jobs(Square(), tmp_path / "job", 7, engine, "squares")) == 2


@pytest.mark.slow
def test_killed_worker_is_an_error_and_loses_nothing(tmp_path: Path) -> None:
    job = DieOnce(tmp_path / "died")
    with pytest.raises(InputError, match="worker process died"):
        run_jobs(job, tmp_path / "job", 6, TWO, "dying")
    assert not job_output(tmp_path / "job", 2).exists()
    run_jobs(job, tmp_path / "job", 6, TWO, "dying")
    for index in range(6):
        assert sorted(path.name for path in job_output(tmp_path / "job", index).iterdir()) == ["half", "whole"]


@pytest.mark.parametrize("error", [InputError("file.txt, line 3: bad"), OSError(28, "No space left on device")])
def test_errors_of_jobs_arrive_as_one_line(error: BaseException, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="line 3: bad|No space left on device.*run the same command again"):
        run_jobs(Refuse(error), tmp_path / "job", 3, ONE, "refusing")
    assert not job_output(tmp_path / "job", 1).exists()


def test_removing_jobs_removes_leftovers_of_killed_ones(tmp_path: Path) -> None:
    run_jobs(Square(), tmp_path / "job", 2, ONE, "squares")
    (tmp_path / "job" / ".000001.host.1").mkdir()
    (tmp_path / "job.gone" / "000000").mkdir(parents=True)
    remove_jobs(tmp_path / "job")
    assert not list(tmp_path.iterdir())


def test_files_of_jobs_are_moved_also_where_all_were_done(tmp_path: Path) -> None:
    run_jobs(Square(), tmp_path / JOBS_DIR, 1, ONE, "squares")
    assert fill_by_jobs(tmp_path, Square(), 1, ONE, "squares") == []
    assert {path.name for path in tmp_path.iterdir()} == {"square"}


# A cluster

needs_dask = pytest.mark.skipif(not find_spec("distributed"), reason="needs the package distributed")


@needs_dask
@pytest.mark.slow
def test_two_hosts_share_the_work(tmp_path: Path) -> None:
    with dask_cluster(tmp_path) as scheduler:
        in_fresh_process(share_the_work, tmp_path, str(scheduler))


def share_the_work(folder: Path, scheduler: str) -> None:
    engine = Engine(scheduler=scheduler)
    (folder / "meeting").mkdir()
    processes = run_jobs(Square(folder / "meeting"), folder / "job", 12, engine, "squares")
    assert _squares(folder / "job", 12) == [str(index * index) for index in range(12)]
    assert len(set(processes)) == 2
    assert os.getpid() not in processes
    with pytest.raises(InputError, match="line 3: bad"):
        run_jobs(Refuse(InputError("file.txt, line 3: bad")), folder / "refused", 3, engine, "refusing")
    # The refusal has not ended the workers.
    assert len(run_jobs(Square(), folder / "more", 3, engine, "squares")) == 3


def said(folder: Path, scheduler: str, job: Wait | None = None) -> str:
    """The one line where no answer comes for three seconds."""
    if job is not None:
        from distributed import Client

        with Client(scheduler_file=scheduler, timeout=SECONDS, set_as_default=False) as client:
            client.wait_for_workers(1, timeout=SECONDS)
    waits = {"_SCHEDULER_SECONDS": 0.1 if job is None else 60.0, "_WORKERS_SECONDS": 3.0}
    with patch.multiple(executors, **waits), pytest.raises(InputError) as refused:
        run_jobs(job or Square(), folder / "job", 2, Engine(scheduler=scheduler), "jobs")
    assert "\n" not in str(refused.value)
    return str(refused.value)


@needs_dask
@pytest.mark.parametrize("address", ["", "tcp://[::1", "absent.json"])
def test_invalid_scheduler_addresses_are_refused(address: str, tmp_path: Path) -> None:
    assert said(tmp_path, address).startswith(f"--scheduler {address}: unknown scheduler")


@needs_dask
@pytest.mark.slow
def test_an_address_where_nothing_listens_is_named(tmp_path: Path) -> None:
    assert "no Dask scheduler answers" in in_fresh_process(said, tmp_path, "tcp://127.0.0.1:1")


@needs_dask
@pytest.mark.slow
def test_a_cluster_whose_workers_die_is_one_line(tmp_path: Path) -> None:
    processes: list[int] = []

    def kill() -> None:
        wait_until((tmp_path / "begun0").exists, "no job began")
        os.kill(processes[1], signal.SIGKILL)

    with dask_cluster(tmp_path, workers=1, processes=processes) as scheduler:
        threading.Thread(target=kill).start()
        message = in_fresh_process(said, tmp_path, str(scheduler), Wait())
    assert "no worker for 3 s" in message
    assert "run the same command again" in message
