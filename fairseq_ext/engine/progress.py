"""How far something long is, on stderr: a line written over on a terminal, else one a minute and tenth at most."""

from __future__ import annotations

import re
import shutil
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

from fairseq_ext.engine.option_files import options_in

# The part that is done, and words for it; None as long as nothing is known.
Look = Callable[[], tuple[float, str] | None]

_UPDATE = re.compile(r"epoch (\d+): +(\d+) / (\d+) .*?\bloss=([\d.]+).*?\bnum_updates=(\d+)")
_TERMINAL_SECONDS, _LOG_SECONDS = 1.0, 60.0
_TAIL_BYTES = 16 << 10
_BETWEEN = "; "  # what is told of several at once
_lock = threading.Lock()
_going_on: dict[str, str] = {}  # of all that is told on a terminal's last line, what is told now
_width = 0  # of that line


@contextmanager
def progress(label: str, look: Look) -> Iterator[None]:
    """Tell meanwhile how far it is, as ``look`` sees it, and how long it will still take.

    Args:
        label: what is done.
        look: asked now and then by another thread.
    """
    stop = threading.Event()
    thread = threading.Thread(target=_tell, args=(label, look, stop, sys.stderr), daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def tell(line: str) -> None:
    """Write a line to stderr, on which other threads may be telling how far they are."""
    _write(sys.stderr, f"{line}\n")


def _write(out: TextIO, text: str = "", now: dict[str, str] | None = None, over: str = "") -> None:
    """Write a text above a terminal's last line, which tells of all that is going on as far as it has room.

    Args:
        out: where to.
        text: lines, with their ends.
        now: what is to be told of something by now, by its label.
        over: the label of what is not going on any more.
    """
    global _width
    with _lock:
        _going_on.update(now or {})
        _going_on.pop(over, None)
        room = shutil.get_terminal_size().columns - 1
        last = _BETWEEN.join(_going_on.values())[:room]
        cleared = f"\r{'':<{_width}}\r" if _width and (text or not last) else ""
        out.write(f"{cleared}{text}" + (f"\r{last:<{_width}}" if last else ""))
        out.flush()
        _width = len(last)


def _tell(label: str, look: Look, stop: threading.Event, out: TextIO) -> None:
    is_terminal = out.isatty()
    begun: tuple[float, float] | None = None
    told = 0.0
    while not stop.wait(_TERMINAL_SECONDS if is_terminal else _LOG_SECONDS):
        seen = look()
        if seen is None or (not is_terminal and seen[0] < told + 0.1):
            continue
        told, now = seen[0], time.monotonic()
        begun = begun or (now, told)
        line = f"{label}: {seen[1]}{time_left(now - begun[0], told - begun[1], 1 - told)}"
        if is_terminal:
            _write(out, now={label: line})
        else:
            _write(out, f"{line}\n")
    if is_terminal:
        _write(out, over=label)


def time_left(seconds: float, done: float, left: float) -> str:
    """What to say of the time that a part will take, given what another part took."""
    if done <= 0:
        return ""
    minutes = seconds / done * left / 60
    if minutes < 1:
        return ", less than a minute left"
    return f", {minutes:.0f} min left" if minutes < 90 else f", {minutes / 60:.1f} h left"


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
