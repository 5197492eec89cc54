"""Memory that glibc keeps for the next batch, and what of it goes back to the system from time to time.

glibc gives large free blocks back to the kernel, which cleans and maps them anew for every batch. Training on a CPU
spends a third to a half of its time on that, unless the process keeps them. Kept for good, though, the pieces between
what stays become too small for the next batch, and the process grows to several times what it needs.
"""

from __future__ import annotations

import ctypes
import os
import time
from collections.abc import Mapping
from threading import Thread

KEEP_MEMORY = {"MALLOC_MMAP_THRESHOLD_": str(1 << 30), "MALLOC_TRIM_THRESHOLD_": str(1 << 30)}
_SECONDS = 30.0


def give_back_at_times(environment: Mapping[str, str] = os.environ) -> None:
    """Let this process, and those that it forks, give back twice a minute what is free, if it was told to keep it."""
    library = ctypes.CDLL(None)
    if environment.items() >= KEEP_MEMORY.items() and hasattr(library, "malloc_trim"):
        _start(library)
        os.register_at_fork(after_in_child=lambda: _start(library))


def _start(library: ctypes.CDLL) -> None:
    Thread(target=_give_back, args=(library,), name="memory", daemon=True).start()


def _give_back(library: ctypes.CDLL) -> None:
    while True:
        time.sleep(_SECONDS)
        library.malloc_trim(0)
