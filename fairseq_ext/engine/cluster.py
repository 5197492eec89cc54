"""A running Dask cluster as an executor, with an end to every wait."""

from __future__ import annotations

import logging
import re
import sys
import threading
import time
from collections.abc import Callable, Collection, Iterator
from concurrent.futures import FIRST_COMPLETED, CancelledError, Future, wait
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from fairseq_ext.engine.provenance import read_json_object
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
        raise InputError("--scheduler: needs the package distributed: pip install distributed") from None
    _silence()
    with _connect(scheduler) as client:
        seen = time.monotonic()

        def check() -> None:
            nonlocal seen
            if _workers(client):
                seen = time.monotonic()
            elif time.monotonic() - seen > _WORKERS_SECONDS:
                raise _without_workers(scheduler)

        try:
            client.wait_for_workers(1, timeout=_WORKERS_SECONDS)
            print(f"{scheduler}: {len(_workers(client))} workers", file=sys.stderr)
            yield client, check
        except TimeoutError:
            raise _without_workers(scheduler) from None
        except KilledWorker:
            raise _lost(scheduler, "workers died in one task again and again (killed, or out of memory?)") from None
        except CancelledError:
            raise _lost(scheduler, "the scheduler has gone") from None


def wait_for_one(futures: Collection[Future], check: Callable[[], None]) -> set[Future]:
    """The futures that are done, at least one; while none is, ``check`` is called, which may raise."""
    while futures:
        done, _ = wait(futures, _POLL_SECONDS, FIRST_COMPLETED)
        if done:
            return done
        check()
    return set()


def has_resource(client: Any, name: str) -> bool:
    """Whether a worker was started with ``--resources NAME=…``."""
    return any(name in worker["resources"] for worker in _workers(client))


def _workers(client: Any) -> list[dict[str, Any]]:
    return list(client.scheduler_info(n_workers=-1)["workers"].values())


def _silence() -> None:
    """Dask would tell of lost connections in tracebacks; we do in one line."""
    for name in list(logging.root.manager.loggerDict):
        if name.startswith("distributed"):
            logging.getLogger(name).setLevel(logging.CRITICAL + 1)


def _connect(scheduler: str) -> Any:
    from distributed import Client

    address, answer = _address(scheduler), Future[Any]()

    def connect() -> None:
        try:
            answer.set_result(Client(address, timeout=_SCHEDULER_SECONDS, set_as_default=False))
        except Exception as error:  # a stranger that answers at this address may cause any
            answer.set_exception(error)

    # In a thread, because a stranger may also say nothing, and Dask's own limit is for finding one.
    threading.Thread(target=connect, daemon=True).start()
    try:
        return answer.result(timeout=_SCHEDULER_SECONDS + _ANSWER_SECONDS)
    except Exception as error:
        reason = " ".join(str(error).split()) or type(error).__name__
        raise InputError(f"--scheduler {scheduler}: no Dask scheduler answers there ({reason})") from None


def _address(scheduler: str) -> str:
    """The address that is given, or that the scheduler file holds, which may come late."""
    if _ADDRESS.fullmatch(scheduler):
        return scheduler
    file, deadline = Path(scheduler), time.monotonic() + _SCHEDULER_SECONDS
    while scheduler.endswith(".json") and not file.exists() and time.monotonic() < deadline:
        time.sleep(_POLL_SECONDS)
    address = read_json_object(file).get("address") if file.is_file() else None
    if not isinstance(address, str) or not _ADDRESS.fullmatch(address):
        raise InputError(
            f"--scheduler {scheduler}: neither an address like tcp://HOST:PORT nor a file that dask scheduler wrote"
        )
    return address


def _without_workers(scheduler: str) -> InputError:
    return InputError(
        f"--scheduler {scheduler}: has no workers, and got none in {_WORKERS_SECONDS:.0f} s; start some (see "
        "docs/cluster.md) and run the same command again, which goes on from here"
    )


def _lost(scheduler: str, what: str) -> InputError:
    return InputError(f"--scheduler {scheduler}: {what}; nothing finished is lost: run the same command again")
