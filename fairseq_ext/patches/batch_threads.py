"""A program that ends before all batches are taken does not abort.

fairseq makes batches in a daemon thread. One that is in torch's C++ when the interpreter ends takes the whole process
with it ("terminate called without an active exception"), after a training that had come to its last update.
"""

from __future__ import annotations

import atexit
import functools
import queue
import threading
import time
from collections.abc import Callable
from typing import Any

from fairseq.data.iterators import BackgroundConsumer, BufferedIterator

_LOOK_AGAIN_SECONDS = 0.01
_LONGEST_SECONDS = 10  # that a batch may take; longer, and the end is fairseq's own


def stop_batches_at_exit() -> None:
    """Let fairseq's threads that make batches end before the interpreter does."""
    if not hasattr(BufferedIterator._create_consumer, "__wrapped__"):
        BufferedIterator._create_consumer = _minding_exit(BufferedIterator._create_consumer)


def _minding_exit(create: Callable[[Any], None]) -> Callable[[Any], None]:
    @functools.wraps(create)
    def create_and_mind_exit(iterator: Any) -> None:
        atexit.unregister(_stop_all)
        atexit.register(_stop_all)
        create(iterator)

    return create_and_mind_exit


def _stop_all() -> None:
    for thread in threading.enumerate():
        if isinstance(thread, BackgroundConsumer):
            _stop(thread)


def _stop(thread: Any) -> None:
    thread._max_len = 0  # reached with the next batch
    deadline = time.monotonic() + _LONGEST_SECONDS
    while thread.is_alive() and time.monotonic() < deadline:
        try:
            thread._queue.get(timeout=_LOOK_AGAIN_SECONDS)  # makes room for it
        except queue.Empty:
            continue
