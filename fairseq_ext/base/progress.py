"""Progress of a long task on stderr: an updated line on a terminal, otherwise a line every 10 %."""

from __future__ import annotations

import io
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from tqdm import tqdm

# Return the finished fraction and a description; None if the progress is not known yet.
Look = Callable[[], tuple[float, str] | None]

_TERMINAL_SECONDS, _LOG_SECONDS = 1.0, 60.0


@contextmanager
def progress(label: str, look: Look) -> Iterator[None]:
    """Show the progress, read by ``look`` in another thread, and the estimated remaining time."""
    stop = threading.Event()
    thread = threading.Thread(target=_follow, args=(label, look, stop), daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def tell(line: str) -> None:
    """Write a line to stderr, above the progress line."""
    tqdm.write(line, file=sys.stderr)


def _follow(label: str, look: Look, stop: threading.Event) -> None:
    on_terminal, told = sys.stderr.isatty(), 0.0
    file = sys.stderr if on_terminal else io.StringIO()
    with tqdm(total=1, bar_format="{desc}, {remaining} left", leave=False, file=file) as bar:
        while not stop.wait(_TERMINAL_SECONDS if on_terminal else _LOG_SECONDS):
            if (seen := look()) is None:
                continue
            if not bar.n:
                bar.initial = seen[0]  # a resumed training run has not done this part now
            bar.n = seen[0]
            bar.set_description_str(f"{label}: {seen[1]}")
            if not on_terminal and seen[0] >= told + 0.1:
                told = seen[0]
                tell(str(bar))
