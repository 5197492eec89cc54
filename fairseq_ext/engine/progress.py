"""How far something long is, on stderr: a line written over on a terminal, else a line for every tenth."""

from __future__ import annotations

import io
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from tqdm import tqdm

# The part that is done, and words for it; None as long as nothing is known.
Look = Callable[[], tuple[float, str] | None]

_TERMINAL_SECONDS, _LOG_SECONDS = 1.0, 60.0


@contextmanager
def progress(label: str, look: Look) -> Iterator[None]:
    """Tell meanwhile how far it is, as ``look`` sees it from another thread, and how long it will still take."""
    stop = threading.Event()
    thread = threading.Thread(target=_follow, args=(label, look, stop), daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def tell(line: str) -> None:
    """Write a line to stderr, above the line that is written over."""
    tqdm.write(line, file=sys.stderr)


def _follow(label: str, look: Look, stop: threading.Event) -> None:
    on_terminal, told = sys.stderr.isatty(), 0.0
    file = sys.stderr if on_terminal else io.StringIO()
    with tqdm(total=1, bar_format="{desc}, {remaining} left", leave=False, file=file) as bar:
        while not stop.wait(_TERMINAL_SECONDS if on_terminal else _LOG_SECONDS):
            if (seen := look()) is None:
                continue
            if not bar.n:
                bar.initial = seen[0]  # a training that goes on has not done this part now
            bar.n = seen[0]
            bar.set_description_str(f"{label}: {seen[1]}")
            if not on_terminal and seen[0] >= told + 0.1:
                told = seen[0]
                tell(str(bar))
