"""Where a step works: a hidden directory beside its output, which only this program can have made.

::

    work/.mix.step/step-workspace.json      the mark: whose it is, and the fingerprint that is worked for
    work/.mix.step/unfinished/              becomes work/mix when complete
    work/.mix.step/replaced/                was work/mix until then

No output's name starts with a dot, and nothing is deleted without the mark of this very output.
"""

from __future__ import annotations

import fcntl
import json
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from fairseq_ext.inputs.errors import InputError

MARK = "step-workspace.json"
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
        return self.unfinished.is_dir() and self._mark() == _mark(self.output, fingerprint)

    def restore(self) -> None:
        """Put back what a run that was killed had taken away and not replaced yet."""
        if self.exists():
            self._require_ours()
        if self.replaced.exists() and not self.output.exists():
            self.replaced.rename(self.output)

    def start(self, fingerprint: str) -> Path:
        """An empty directory to build in."""
        self.clear()
        self.folder.mkdir()
        (self.folder / MARK).write_text(_mark(self.output, fingerprint), encoding="utf-8")
        self.unfinished.mkdir()
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
        (self.folder / MARK).unlink(missing_ok=True)
        try:
            self.folder.rmdir()
        except OSError:
            raise self._foreign() from None

    def _require_ours(self) -> None:
        if self.folder.is_symlink() or not self.folder.is_dir():
            raise self._foreign()
        # A kill between the first two acts leaves no mark or an empty one, and nothing else.
        is_bare = {path.name for path in self.folder.iterdir()} <= {MARK}
        if not is_bare and not _is_mark_of(self.output, self._mark()):
            raise self._foreign()

    def _mark(self) -> str:
        try:
            return (self.folder / MARK).read_text(encoding="utf-8")
        except (OSError, ValueError):
            return ""

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


def _mark(output: Path, fingerprint: str) -> str:
    return json.dumps({"output": output.name, "fingerprint": fingerprint}, ensure_ascii=False)


def _is_mark_of(output: Path, text: str) -> bool:
    try:
        mark = json.loads(text)
    except ValueError:
        return False
    return isinstance(mark, dict) and mark.get("output") == output.name


def _delete(path: Path) -> None:
    """Delete a directory with all in it; of a link, the link alone."""
    if path.is_symlink():
        path.unlink()
    elif path.exists():
        shutil.rmtree(path)
