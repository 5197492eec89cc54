"""Work done by several threads at once, as a server does it."""

import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import torch


def in_threads(work: Callable[[Any], Any], jobs: Sequence[Any], threads: int = 4) -> list[Any]:
    """The results of all jobs, worked on by so many threads that take turns as often as they can."""
    with _frequent_turns(), ThreadPoolExecutor(threads, initializer=_prepare) as pool:
        return list(pool.map(work, jobs))


def _prepare() -> None:
    torch.set_num_threads(1)


@contextmanager
def _frequent_turns() -> Iterator[None]:
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        yield
    finally:
        sys.setswitchinterval(before)
