"""Random changes to files, and a limit on the time of their readers."""

import contextlib
import json
import random
import signal
from collections.abc import Iterator, Sequence
from typing import Any

SECONDS = 5  # for one file; it takes a fiftieth of a second
LONGEST_LINE = 1500


@contextlib.contextmanager
def time_limit() -> Iterator[None]:
    """Raise TimeoutError after SECONDS of this process."""

    def stop(*_: Any) -> None:
        raise TimeoutError(f"not done after {SECONDS} s")

    before = signal.signal(signal.SIGPROF, stop)
    # Again and again: what garbage collection raises is lost.
    signal.setitimer(signal.ITIMER_PROF, SECONDS, 0.5)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def changed(tree: Any, snippets: Sequence[str], rng: random.Random) -> str:
    """The tree as JSON, with a random value or key replaced by each snippet."""
    for number in range(len(snippets)):
        container, key = rng.choice(list(_places(tree)))
        if rng.random() < 0.1 and isinstance(container, dict):
            container[f"MARK{number}"] = container.pop(key)
        else:
            container[key] = f"MARK{number}"
    text = json.dumps(tree)
    for number, snippet in enumerate(snippets):
        text = text.replace(f'"MARK{number}"', snippet)
    return text


def _places(tree: Any) -> Iterator[tuple[Any, Any]]:
    items = tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else ()
    for key, value in items:
        yield tree, key
        yield from _places(value)
