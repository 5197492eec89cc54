"""Waiting for something to happen, on any machine: as long as nothing here can take, and no longer than it does."""

import time
from collections.abc import Callable

SECONDS = 300


def wait_until(condition: Callable[[], bool], otherwise: str, every: float = 0.01) -> None:
    """Return when it is so, looked at every so many seconds; fail with these words if it never is."""
    deadline = time.monotonic() + SECONDS
    while not condition():
        assert time.monotonic() < deadline, otherwise
        time.sleep(every)
