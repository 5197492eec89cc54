"""A running Dask cluster as an executor, with an end to every wait."""

from __future__ import annotations

import json
import logging
import queue
import re
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from fairseq_ext.inputs.errors import InputError

# A job starts its scheduler, its workers and the command that uses them at once.
_SCHEDULER_SECONDS = 20.0
_WORKERS_SECONDS = 120.0
_ANSWER_SECONDS = 5.0
_POLL_SECONDS = 0.2
_ADDRESS = re.compile(r"((tcp|tls)://)?([A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\]):\d{1,5}")


@contextmanager
def dask_client(scheduler: str) -> Iterator[tuple[Any, Callable[[], None]]]:
    """Connect to a cluster.

    Args:
        scheduler: its address (``tcp://HOST:PORT``) or scheduler file.

    Yields:
        a client of Dask's, and a function that raises when no worker has been left for a while.

    Raises:
        InputError: if it does not answer, has no workers, or is lost on the way.
    """
    try:
        from distributed import KilledWorker
    except ImportError:
        raise InputError(
            "--scheduler: needs the package distributed: pip install -r requirements-cluster.txt"
        ) from None
    _silence()
    with _connect(scheduler) as client:
        try:
            client.wait_for_workers(1, timeout=_WORKERS_SECONDS)
            print(f"{scheduler}: {_count_workers(client)} workers", file=sys.stderr)
            yield client, _Watch(scheduler, client)
        except TimeoutError:
            raise _without_workers(scheduler) from None
        except KilledWorker:
            raise _lost(scheduler, "workers died in one task again and again (killed, or out of memory?)") from None
        except CancelledError:
            raise _lost(scheduler, "the scheduler has gone") from None


class _Watch:
    """Called now and then; raises when there has been no worker for a while."""

    def __init__(self, scheduler: str, client: Any) -> None:
        self.scheduler, self.client, self.seen = scheduler, client, time.monotonic()

    def __call__(self) -> None:
        if _count_workers(self.client):
            self.seen = time.monotonic()
        elif time.monotonic() - self.seen > _WORKERS_SECONDS:
            raise _without_workers(self.scheduler)


def has_resource(client: Any, name: str) -> bool:
    """Whether a worker was started with ``--resources NAME=…``."""
    return any(name in worker["resources"] for worker in client.scheduler_info(n_workers=-1)["workers"].values())


def _silence() -> None:
    """What Dask would say of lost connections, with tracebacks, we say in one line."""
    for name in list(logging.root.manager.loggerDict):
        if name.startswith("distributed"):
            logging.getLogger(name).setLevel(logging.CRITICAL + 1)


def _connect(scheduler: str) -> Any:
    from distributed import Client

    address = _address(scheduler)
    answers: queue.SimpleQueue[Any] = queue.SimpleQueue()

    def connect() -> None:
        try:
            answers.put(Client(address, timeout=_SCHEDULER_SECONDS, set_as_default=False))
        except Exception as error:  # a stranger that answers at this address may cause any
            answers.put(error)

    # In a thread, because a stranger may also say nothing, and Dask's own limit is for finding one.
    threading.Thread(target=connect, daemon=True).start()
    try:
        answer = answers.get(timeout=_SCHEDULER_SECONDS + _ANSWER_SECONDS)
    except queue.Empty:
        answer = TimeoutError("it says nothing that a scheduler would")
    if isinstance(answer, Exception):
        reason = " ".join(str(answer).split()) or type(answer).__name__
        raise InputError(f"--scheduler {scheduler}: no Dask scheduler answers there ({reason})")
    return answer


def _address(scheduler: str) -> str:
    """The address that is given, or that the scheduler file holds, which may come late."""
    if _ADDRESS.fullmatch(scheduler):
        return scheduler
    file, deadline = Path(scheduler), time.monotonic() + _SCHEDULER_SECONDS
    while "://" not in scheduler and scheduler.endswith(".json") and not file.exists() and time.monotonic() < deadline:
        time.sleep(_POLL_SECONDS)
    if "://" in scheduler or not file.is_file():
        raise InputError(
            f"--scheduler {scheduler}: neither an address like tcp://HOST:PORT nor a scheduler file that is there"
        )
    try:
        address = json.loads(file.read_text(encoding="utf-8"))["address"]
    except (OSError, ValueError, KeyError, TypeError):
        address = None
    if not isinstance(address, str) or not _ADDRESS.fullmatch(address):
        raise InputError(f"--scheduler {scheduler}: no scheduler file; give the one that dask scheduler wrote")
    return address


def _count_workers(client: Any) -> int:
    return len(client.scheduler_info(n_workers=-1)["workers"])


def _without_workers(scheduler: str) -> InputError:
    return InputError(
        f"--scheduler {scheduler}: has no workers, and got none in {_WORKERS_SECONDS:.0f} s; start some (see "
        "docs/cluster.md) and run the same command again, which goes on from here"
    )


def _lost(scheduler: str, what: str) -> InputError:
    return InputError(f"--scheduler {scheduler}: {what}; nothing finished is lost: run the same command again")
