"""Where a step works: a hidden directory beside its output, which only this program can have made.

::

    work/.mix.step/step-workspace.json      the mark: whose it is, what is worked for, and what from
    work/.mix.step/unfinished/              becomes work/mix when complete
    work/.mix.step/replaced/                was work/mix until then

No output's name starts with a dot, and nothing is deleted without the mark of this very output.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fairseq_ext.engine.origins import Origin, read_origin
from fairseq_ext.inputs.errors import InputError

MARK = "step-workspace.json"
_NEXT_MARK = f"{MARK}.next"
# A process that was killed may take so long to end.
_LOCK_SECONDS = 1.0
_POLL_SECONDS = 0.1


@dataclass(frozen=True)
class Workspace:
    """The place beside an output in which its step works."""

    output: Path

    @property
    def folder(self) -> Path:
        """The hidden directory."""
        return self.output.with_name(f".{self.output.name}.step")

    @property
    def unfinished(self) -> Path:
        """What is being built."""
        return self.folder / "unfinished"

    @property
    def replaced(self) -> Path:
        """What it takes the place of."""
        return self.folder / "replaced"

    def exists(self) -> bool:
        """Whether a run works here, or was interrupted."""
        return self.folder.exists() or self.folder.is_symlink()

    def is_begun(self, fingerprint: str) -> bool:
        """Whether a run with this fingerprint works here, or was interrupted."""
        return self.unfinished.is_dir() and self._mark().get("fingerprint") == fingerprint

    def origin(self) -> Origin | None:
        """What an interrupted run worked from, as far as it is known."""
        return read_origin(self._mark().get("made_from")) if self.unfinished.is_dir() else None

    def restore(self) -> None:
        """Put back what a run that was killed had taken away and not replaced yet."""
        if self.exists():
            self._require_ours()
        if self.replaced.exists() and not self.output.exists():
            self.replaced.rename(self.output)

    def start(self, fingerprint: str, origin: Origin | None = None) -> Path:
        """An empty directory to build in.

        Args:
            fingerprint: what is worked for.
            origin: what from.
        """
        self.clear()
        self.folder.mkdir()
        self._write_mark(None, None)  # ours, and nothing yet to go on from
        self.unfinished.mkdir()
        self._write_mark(fingerprint, origin)
        return self.unfinished

    def finish(self) -> None:
        """Put what was built in place of the output; a kill in between leaves one, the other or none."""
        if self.output.exists() or self.output.is_symlink():
            self.output.rename(self.replaced)
        self.unfinished.rename(self.output)
        self.clear()

    def clear(self) -> None:
        """Delete all that is here, the mark last: what a kill leaves of it is still known as ours.

        Raises:
            InputError: if this program did not make it.
        """
        if not self.exists():
            return
        self._require_ours()
        for path in (self.unfinished, self.replaced):
            _delete(path)
        for name in (_NEXT_MARK, MARK):
            (self.folder / name).unlink(missing_ok=True)
        try:
            self.folder.rmdir()
        except OSError:
            raise self._foreign() from None

    def _require_ours(self) -> None:
        if self.folder.is_symlink() or not self.folder.is_dir():
            raise self._foreign()
        # A kill between the first two acts leaves no mark or an empty one, and nothing else.
        is_bare = {path.name for path in self.folder.iterdir()} <= {MARK, _NEXT_MARK}
        if not is_bare and not self._mark():
            raise self._foreign()

    def _mark(self) -> dict[str, Any]:
        """The mark, if it is of this output."""
        try:
            mark = json.loads((self.folder / MARK).read_text(encoding="utf-8"))
        except (OSError, ValueError, RecursionError):
            return {}
        return mark if isinstance(mark, dict) and mark.get("output") == self.output.name else {}

    def _write_mark(self, fingerprint: str | None, origin: Origin | None) -> None:
        mark = {"output": self.output.name, "fingerprint": fingerprint, "made_from": origin and origin.as_json()}
        (self.folder / _NEXT_MARK).write_text(json.dumps(mark, ensure_ascii=False), encoding="utf-8")
        os.replace(self.folder / _NEXT_MARK, self.folder / MARK)

    def _foreign(self) -> InputError:
        return InputError(
            f"{self.folder}: is in the way, and not all in it is of the step {self.output.name}; move it away"
        )


@contextmanager
def locked(output: Path) -> Iterator[None]:
    """Be the only process that builds an output.

    Raises:
        InputError: if another one does.
    """
    # The file stays behind: removing a lock file lets two processes lock two files of one name.
    with output.with_name(f".{output.name}.lock").open("a") as file:
        deadline = time.monotonic() + _LOCK_SECONDS
        while not _try_to_lock(file.fileno()):
            if time.monotonic() > deadline:
                raise InputError(f"{output}: another process is building it; wait until it has ended")
            time.sleep(_POLL_SECONDS)
        yield


def _try_to_lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _delete(path: Path) -> None:
    """Delete a directory with all in it; of a link, the link alone."""
    if path.is_symlink():
        path.unlink()
    elif path.exists():
        shutil.rmtree(path)
