"""Work that other programs do, several at once: on a CPU two programs of one thread each beat one of two."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from queue import Empty, SimpleQueue

from fairseq_ext.engine.cores import cores

_THREADS = "OMP_NUM_THREADS"
MOST_AT_ONCE = 4  # programs at once: each holds a model in memory


def run_side_by_side(works: Sequence[Callable[[], object]], most: int = MOST_AT_ONCE) -> None:
    """Do all of them, as many at once as there are cores, up to ``most``; the programs that they start share the cores.

    One after the other where there is a GPU, which one program fills.

    Args:
        works: begun in this order.
        most: at once.

    Raises:
        BaseException: the first one of a work, when those that had begun beside it are done; no other begins then.
    """
    at_once = min(cores(), most, len(works))
    if at_once < 2 or _has_gpu():
        for work in works:
            work()
        return
    waiting: SimpleQueue[Callable[[], object]] = SimpleQueue()
    for work in works:
        waiting.put(work)
    failures: list[BaseException] = []
    # Daemons: when this program is interrupted it ends, and with it, through run_child, what it started.
    workers = [threading.Thread(target=_do, args=(waiting, failures), daemon=True) for _ in range(at_once)]
    with _threads_each(max(1, cores() // at_once)):
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
    if failures:
        raise failures[0]


def _do(waiting: SimpleQueue[Callable[[], object]], failures: list[BaseException]) -> None:
    while not failures:
        try:
            work = waiting.get_nowait()
        except Empty:
            return
        try:
            work()
        except BaseException as error:
            failures.append(error)


@contextmanager
def _threads_each(count: int) -> Iterator[None]:
    """Let programs that are started meanwhile compute with so many threads, unless the user said how many."""
    if os.environ.get(_THREADS):
        yield
        return
    os.environ[_THREADS] = str(count)
    try:
        yield
    finally:
        del os.environ[_THREADS]


def _has_gpu() -> bool:
    import torch  # takes seconds, which only what runs side by side need pay

    return torch.cuda.is_available()
