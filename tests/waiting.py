"""Waiting for something to happen, on any machine: as long as nothing here can take, and no longer than it does."""

import time
from collections.abc import Callable
from pathlib import Path

SECONDS = 300


def wait_until(condition: Callable[[], bool], otherwise: str, every: float = 0.01) -> None:
    """Return when it is so, looked at every so many seconds; fail with these words if it never is."""
    deadline = time.monotonic() + SECONDS
    while not condition():
        assert time.monotonic() < deadline, otherwise
        time.sleep(every)


def is_running(process: int) -> bool:
    try:
        # A zombie that nobody waits for still has its number.
        return "State:\tZ" not in Path(f"/proc/{process}/status").read_text()
    except (FileNotFoundError, ProcessLookupError):  # before or after it was opened
        return False


def wait_until_gone(processes: list[int]) -> None:
    wait_until(lambda: not any(map(is_running, processes)), "a process outlives its parent")
