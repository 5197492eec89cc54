"""Where work runs: in processes of this machine or on a Dask cluster, both as executors of ``concurrent.futures``."""

from __future__ import annotations

import logging
import multiprocessing
import os
import re
import signal
import sys
import time
from collections.abc import Callable, Collection, Iterator
from concurrent.futures import FIRST_COMPLETED, CancelledError, Executor, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

from fairseq_ext.engine.children import GO_ON, end_with_parent
from fairseq_ext.engine.progress import tell
from fairseq_ext.engine.provenance import read_json_object
from fairseq_ext.inputs.errors import InputError

# A job starts its scheduler, its workers and the command that uses them at once.
_SCHEDULER_SECONDS = 20.0
_WORKERS_SECONDS = 120.0
_POLL_SECONDS = 0.2
_ADDRESS = re.compile(r"((tcp|tls)://)?([A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\]):\d{1,5}")


@dataclass(frozen=True)
class Workers:
    """Processes that run functions."""

    executor: Executor
    gpu_executor: Executor  # of those with a GPU, or of all where none has one
    check: Callable[[], None] = lambda: None  # waits where no worker is left, and raises TimeoutError after a while
    topic: str | None = None  # under which workers of a cluster log lines for this process to show

    def wait(self, futures: Collection[Future]) -> set[Future]:
        """Wait until at least one future is done, and return those that are; none without futures."""
        while futures:
            done, _ = wait(futures, _POLL_SECONDS, FIRST_COMPLETED)
            if done:
                return done
            self.check()
        return set()


@contextmanager
def local_workers(count: int) -> Iterator[Workers]:
    """Start processes of this machine, which end with this one."""
    # Spawned, not forked: a fork would copy the step's lock and the state of other threads.
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(count, context, initializer=_begin_worker, initargs=(os.getpid(),)) as executor:
        try:
            yield Workers(executor, executor)
        except BrokenProcessPool:
            raise InputError(f"a worker process died (out of memory? try fewer of them); {GO_ON}") from None
        except KeyboardInterrupt:
            # Otherwise this would wait until the workers have finished.
            for worker in multiprocessing.active_children():
                worker.kill()
            raise


def _begin_worker(parent: int) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent gets it, too, and ends its workers
    end_with_parent(parent)


@contextmanager
def cluster_workers(scheduler: str) -> Iterator[Workers]:
    """Connect to a Dask cluster by its address or scheduler file; workers with the resource ``GPU`` have a GPU."""
    try:
        from distributed import KilledWorker
    except ImportError:
        raise InputError("--scheduler: needs the package distributed: pip install distributed") from None
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
                f"{where}: has had no workers for {_WORKERS_SECONDS:.0f} s; start some (see docs/cluster.md); {GO_ON}"
            ) from None
        except KilledWorker:
            raise InputError(f"{where}: one task has killed several workers (out of memory?); {GO_ON}") from None
        except CancelledError:
            raise InputError(f"{where}: the scheduler has ended; {GO_ON}") from None


def _workers_of(client: Any) -> list[dict[str, Any]]:
    return list(client.scheduler_info(n_workers=-1)["workers"].values())


def _connect(scheduler: str, where: str) -> Any:
    from distributed import Client

    # Dask writes tracebacks about lost connections.
    for name in list(logging.root.manager.loggerDict):
        if name.startswith("distributed"):
            logging.getLogger(name).setLevel(logging.CRITICAL + 1)
    address = _address(scheduler, where)
    try:
        return Client(address, timeout=_SCHEDULER_SECONDS, set_as_default=False)
    except Exception as error:  # another program that listens at this address may cause any
        reason = " ".join(str(error).split()) or type(error).__name__
        raise InputError(f"{where}: no Dask scheduler answers there ({reason})") from None


def _address(scheduler: str, where: str) -> str:
    """The address, or the one in the scheduler file, which may come late."""
    if _ADDRESS.fullmatch(scheduler):
        return scheduler
    file, deadline = Path(scheduler), time.monotonic() + _SCHEDULER_SECONDS
    while scheduler.endswith(".json") and not file.exists() and time.monotonic() < deadline:
        time.sleep(_POLL_SECONDS)
    address = read_json_object(file).get("address") if file.is_file() else None
    if not isinstance(address, str) or not _ADDRESS.fullmatch(address):
        raise InputError(f"{where}: neither an address like tcp://HOST:PORT nor a file that dask scheduler wrote")
    return address
