"""Work done by several threads at once, as a server does it."""

import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import torch


def in_threads(work: Callable[[Any], Any], jobs: Sequence[Any], threads: int = 4) -> list[Any]:
    """The results of all jobs, worked on by so many threads that take turns as often as they can."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        with ThreadPoolExecutor(threads, initializer=torch.set_num_threads, initargs=(1,)) as pool:
            return list(pool.map(work, jobs))
    finally:
        sys.setswitchinterval(before)
