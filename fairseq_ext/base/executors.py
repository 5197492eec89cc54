"""Executors of ``concurrent.futures``: processes on this machine, or a Dask cluster."""

from __future__ import annotations

import json
import logging
import multiprocessing
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Collection, Iterator
from concurrent.futures import (
    FIRST_COMPLETED,
    CancelledError,
    Executor,
    Future,
    ProcessPoolExecutor,
    ThreadPoolExecutor,
    wait,
)
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any
from uuid import uuid4

from fairseq_ext.base.children import GO_ON, end_with_parent, how_it_ended, start_child
from fairseq_ext.base.errors import InputError
from fairseq_ext.base.fairseq_cli import own_environment
from fairseq_ext.base.processes import without_launcher
from fairseq_ext.base.progress import tell
from fairseq_ext.base.provenance import read_json_object

# A cluster job starts its scheduler, its workers and the command that uses them at the same time.
_SCHEDULER_SECONDS = 20.0
_WORKERS_SECONDS = 120.0
_POLL_SECONDS = 0.2
# With another number of threads, sums differ in the last digit. Dask sets these variables to 1 for its workers.
_THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
_running: set[subprocess.Popen] = set()
_ADDRESS = re.compile(r"((tcp|tls)://)?([A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\]):\d{1,5}")


@dataclass(frozen=True)
class Workers:
    """Processes that run functions."""

    executor: Executor
    gpu_executor: Executor  # the workers with a GPU; all workers if none has a GPU
    check: Callable[[], None] = lambda: None  # waits if no worker is left; raises TimeoutError after a while
    topic: str | None = None  # topic under which cluster workers log lines for this process

    def wait(self, futures: Collection[Future]) -> set[Future]:
        """Wait until at least one future is done, and return those that are done; an empty set without futures."""
        while futures:
            done, _ = wait(futures, _POLL_SECONDS, FIRST_COMPLETED)
            if done:
                return done
            self.check()
        return set()


@contextmanager
def local_workers(count: int) -> Iterator[Workers]:
    """Start worker processes on this machine; they end with this process."""
    # Spawned, because a fork would copy the step's lock and the state of other threads.
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(count, context, initializer=_begin_worker, initargs=(os.getpid(),)) as executor:
        try:
            yield Workers(executor, executor)
        except BrokenProcessPool:
            raise InputError(f"a worker process died (out of memory? use fewer workers); {GO_ON}") from None
        except KeyboardInterrupt:
            # Otherwise this would wait until the workers have finished.
            for worker in multiprocessing.active_children():
                worker.kill()
            raise


def _begin_worker(parent: int) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent also receives the signal, and ends its workers
    end_with_parent(parent)


@contextmanager
def cluster_workers(scheduler: str) -> Iterator[Workers]:
    """Connect to a Dask cluster, given its address or scheduler file. Workers with the resource ``GPU`` have a GPU."""
    try:
        from distributed import KilledWorker
    except ImportError:
        raise InputError("--scheduler: needs the package distributed; run pip install distributed") from None
    where = f"--scheduler {scheduler}"
    with _connect(scheduler, where) as client:

        def check() -> None:
            if not _workers_of(client):
                client.wait_for_workers(1, timeout=_WORKERS_SECONDS)

        try:
            check()
            workers = _workers_of(client)
            print(f"{scheduler}: {len(workers)} workers", file=sys.stderr)
            has_gpus = any("GPU" in worker["resources"] for worker in workers)
            executor = client.get_executor(pure=False)
            gpu_executor = client.get_executor(pure=False, resources={"GPU": 1}) if has_gpus else executor
            topic = f"steps-{uuid4()}"
            client.subscribe_topic(topic, lambda event: tell(event[1]))
            yield Workers(executor, gpu_executor, check, topic)
        except TimeoutError:
            raise InputError(
                f"{where}: no worker for {_WORKERS_SECONDS:.0f} s; start workers (see docs/experiment.md); {GO_ON}"
            ) from None
        except KilledWorker:
            raise InputError(f"{where}: several workers died in the same job (out of memory?); {GO_ON}") from None
        except CancelledError:
            raise InputError(f"{where}: the scheduler has stopped; {GO_ON}") from None


def _workers_of(client: Any) -> list[dict[str, Any]]:
    return list(client.scheduler_info(n_workers=-1)["workers"].values())


def _connect(scheduler: str, where: str) -> Any:
    from distributed import Client

    # Silence Dask's tracebacks about lost connections.
    for name in list(logging.root.manager.loggerDict):
        if name.startswith("distributed"):
            logging.getLogger(name).setLevel(logging.CRITICAL + 1)
    address = _address(scheduler, where)
    try:
        return Client(address, timeout=_SCHEDULER_SECONDS, set_as_default=False)
    except Exception as error:  # if another program listens at this address, any exception is possible
        reason = " ".join(str(error).split()) or type(error).__name__
        raise InputError(
            f"{where}: no Dask scheduler answers there ({reason}); start one, or correct the address"
        ) from None


def _address(scheduler: str, where: str) -> str:
    """Return the scheduler's address. Wait for the scheduler file if it does not exist yet."""
    if _ADDRESS.fullmatch(scheduler):
        return scheduler
    file, deadline = Path(scheduler), time.monotonic() + _SCHEDULER_SECONDS
    while scheduler.endswith(".json") and not file.exists() and time.monotonic() < deadline:
        time.sleep(_POLL_SECONDS)
    address = read_json_object(file).get("address") if file.is_file() else None
    if not isinstance(address, str) or not _ADDRESS.fullmatch(address):
        raise InputError(
            f"{where}: unknown scheduler; give an address like tcp://HOST:PORT or the file that dask scheduler wrote"
        )
    return address


# Each step runs in a separate process, which starts with nothing loaded and ends with its parent. So every worker
# writes the same bytes, and the step of a killed worker ends, too.


@contextmanager
def local_step_workers(count: int) -> Iterator[Workers]:
    """Start threads in this process; each waits for the process of its step."""
    with ThreadPoolExecutor(count) as executor:
        try:
            yield Workers(executor, executor)
        except BaseException:
            executor.shutdown(wait=False, cancel_futures=True)
            for process in list(_running):
                process.kill()
            raise


def submit_step(work: bytes, executor: Executor, threads: int, topic: str | None) -> Future:
    """Submit a step, pickled with its provenance, to a worker.

    If ``OMP_NUM_THREADS`` is set, it overrides ``threads``.
    """
    given = {name: os.environ[name] for name in _THREADS if os.environ.get(name)}
    return executor.submit(_run_on_worker, work, os.getcwd(), {"OMP_NUM_THREADS": str(threads)} | given, topic)


def _run_on_worker(work: bytes, folder: str, threads: dict[str, str], topic: str | None) -> None:
    if topic is None:
        _run_in_process(work, folder, threads, tell, lambda: True)
        return
    from distributed import get_worker

    worker = get_worker()
    key = worker.get_current_task()

    def is_wanted() -> bool:
        """Return whether the command that requested the step is still running."""
        task = worker.state.tasks.get(key)
        return task is not None and task.state == "executing"

    _run_in_process(work, folder, threads, partial(worker.log_event, topic), is_wanted)


def _run_in_process(
    work: bytes, folder: str, threads: dict[str, str], say: Callable[[str], object], is_wanted: Callable[[], bool]
) -> None:
    """Run a pickled step in a folder, forward its messages, and kill it when it is no longer wanted."""
    environment = without_launcher(own_environment())
    environment = {name: value for name, value in environment.items() if name not in _THREADS} | threads
    command = [sys.executable, "-P", "-c", "from fairseq_ext.base.steps import run_pickled; run_pickled()"]
    process = start_child(command, cwd=folder, env=environment, start_new_session=True)
    assert process.stdin is not None
    assert process.stdout is not None
    assert process.stderr is not None
    _running.add(process)
    try:
        threading.Thread(target=_kill_when_unwanted, args=(process, is_wanted), daemon=True).start()
        with suppress(BrokenPipeError), process.stdin as stdin:  # the exit status explains why the process did not read
            stdin.write(work)
        for line in process.stderr:
            say(line.decode("utf-8", "replace").rstrip())
        answer = process.stdout.read()
        status = process.wait()
    finally:
        process.kill()
        _running.discard(process)
    if answer:
        raise InputError(json.loads(answer))
    if status != 0:
        raise InputError(f"a step {how_it_ended(status)}")


def _kill_when_unwanted(process: subprocess.Popen, is_wanted: Callable[[], bool]) -> None:
    while process.poll() is None:
        if not is_wanted():
            process.kill()
        time.sleep(_POLL_SECONDS)
