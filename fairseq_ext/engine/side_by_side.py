"""Work that other programs do, several at once: on a CPU two programs of one thread each beat one of two."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from fairseq_ext.engine.cores import cores

_THREADS = "OMP_NUM_THREADS"
MOST_AT_ONCE = 4  # programs at once: each holds a model in memory


def run_side_by_side(
    works: Sequence[Callable[[], object]], most: int = MOST_AT_ONCE, after: Sequence[Collection[int]] = ()
) -> None:
    """Do all of them, as many at once as there are cores, up to ``most``; the programs that they start share the cores.

    One after the other where there is a GPU, which one program fills.

    Args:
        works: begun in this order, but for those that wait.
        most: at once.
        after: of each work the numbers of those before it that it waits for; none for none of all.

    Raises:
        BaseException: the first one of a work, when those that had begun beside it are done; no other begins then.
    """
    at_once = min(cores(), most, len(works))
    if at_once < 2 or _has_gpu():
        for work in works:
            work()
        return
    plan = _Plan(works, after or [()] * len(works))
    # Daemons: when this program is interrupted it ends, and with it, through run_child, what it started.
    workers = [threading.Thread(target=plan.work, daemon=True) for _ in range(at_once)]
    with _threads_each(max(1, cores() // at_once)):
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
    if plan.failures:
        raise plan.failures[0]


@dataclass
class _Plan:
    """Works, and which of them have begun, are done or failed, for the threads that do them."""

    works: Sequence[Callable[[], object]]
    after: Sequence[Collection[int]]
    begun: set[int] = field(default_factory=set)
    done: set[int] = field(default_factory=set)
    failures: list[BaseException] = field(default_factory=list)
    changed: threading.Condition = field(default_factory=threading.Condition)

    def work(self) -> None:
        """Do what nobody has begun, until nothing is left or something has failed."""
        while (number := self._next()) is not None:
            try:
                self.works[number]()
            except BaseException as error:
                self.failures.append(error)
            with self.changed:
                self.done.add(number)
                self.changed.notify_all()

    def _next(self) -> int | None:
        """The first that need not wait any more, when there is one; None when none will come."""
        with self.changed:
            while not self.failures and len(self.begun) < len(self.works):
                left = (number for number in range(len(self.works)) if number not in self.begun)
                ready = next((number for number in left if self.done.issuperset(self.after[number])), None)
                if ready is not None:
                    self.begun.add(ready)
                    return ready
                self.changed.wait()
        return None


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
