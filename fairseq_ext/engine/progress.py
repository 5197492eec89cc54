"""How far something long is, on stderr: a line written over on a terminal, else one a minute and tenth at most."""

from __future__ import annotations

import re
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from tqdm import tqdm

from fairseq_ext.engine.option_files import options_in

# The part that is done, and words for it; None as long as nothing is known.
Look = Callable[[], tuple[float, str] | None]

_UPDATE = re.compile(r"epoch (\d+): +(\d+) / (\d+) .*?\bloss=([\d.]+).*?\bnum_updates=(\d+)")
_TERMINAL_SECONDS, _LOG_SECONDS = 1.0, 60.0
_TAIL_BYTES = 16 << 10


@contextmanager
def progress(label: str, look: Look) -> Iterator[None]:
    """Tell meanwhile how far it is, as ``look`` sees it, and how long it will still take.

    Args:
        label: names the work.
        look: asked now and then by another thread.
    """
    stop = threading.Event()
    thread = threading.Thread(target=_tell, args=(label, look, stop), daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def tell(line: str) -> None:
    """Write a line to stderr, above the line that is written over."""
    tqdm.write(line, file=sys.stderr)


def _tell(label: str, look: Look, stop: threading.Event) -> None:
    begun: tuple[float, float] | None = None
    told = 0.0
    with tqdm(bar_format="{desc}", leave=False, disable=None, file=sys.stderr) as last_line:
        while not stop.wait(_LOG_SECONDS if last_line.disable else _TERMINAL_SECONDS):
            seen = look()
            if seen is None:
                continue
            done, now = seen[0], time.monotonic()
            begun = begun or (now, done)
            line = _line(f"{label}: {seen[1]}", done, now - begun[0], begun[1])
            if not last_line.disable:
                last_line.set_description_str(line)
            elif done >= told + 0.1:
                told = done
                tell(line)


def _line(words: str, done: float, seconds: float, initial: float) -> str:
    """The words with the time that is left, as far as it is known."""
    left = "" if done <= initial else ", {remaining} left"
    return tqdm.format_meter(done, 1, seconds, prefix=words, bar_format=f"{{desc}}{left}", initial=initial)


def last_lines(path: Path) -> str:
    """The end of a text file that may be being written, or nothing."""
    try:
        with path.open("rb") as file:
            file.seek(max(0, path.stat().st_size - _TAIL_BYTES))
            return file.read().decode("utf-8", "replace")
    except OSError:
        return ""


def number_of(arguments: Sequence[str], name: str) -> float | None:
    """The value of an option of a command line, the last one; None where it is none, or no limit."""
    found = [value for option, value in options_in(arguments) if option == name]
    try:
        value = float(found[-1])
    except (IndexError, ValueError):
        return None
    return value if value > 0 else None


def training_progress(log: Path, arguments: Sequence[str]) -> tuple[float, str] | None:
    """The part of its epochs or updates that a training of fairseq's has done, as its log's last lines say."""
    found = _UPDATE.findall(last_lines(log))
    epochs, updates = number_of(arguments, "max-epoch"), number_of(arguments, "max-update")
    if not found or not (epochs or updates):
        return None
    epoch, place, length, loss, update = map(float, found[-1])
    parts = [(epoch - 1 + place / max(length, 1)) / epochs] if epochs else []
    parts += [update / updates] if updates else []
    by_epoch = epochs and parts[0] == max(parts)
    words = f"epoch {epoch:.0f} of {epochs:.0f}" if by_epoch else f"update {update:,.0f} of {updates:,.0f}"
    return min(max(parts), 1.0), f"{words}, loss {loss:.2f}"


class LinesWritten:
    """Counts the lines of a file that is being written which begin with some bytes; each part is read once."""

    def __init__(self, path: Path, beginning: bytes) -> None:
        self._path, self._beginning = path, beginning
        self._count = self._read = 0

    def __call__(self) -> int:
        """How many there are by now, less one that has no end yet."""
        try:
            with self._path.open("rb") as file:
                file.seek(self._read)
                for line in file:
                    if line.endswith(b"\n"):
                        self._read += len(line)
                        self._count += line.startswith(self._beginning)
        except OSError:
            pass
        return self._count
