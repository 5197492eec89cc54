"""Staging directories: the hidden directory beside an output in which its step works.

::

    work/.mix.step/step-workspace.json      the mark: whose it is, the fingerprint, the provenance
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
from typing import Any

from fairseq_ext.engine.provenance import Provenance, read_json_object, read_provenance
from fairseq_ext.inputs.errors import InputError

MARK = "step-workspace.json"
# A process that was killed may take so long to end.
_LOCK_SECONDS = 1.0
_POLL_SECONDS = 0.1


@dataclass(frozen=True)
class Staging:
    """The staging directory of an output."""

    output: Path

    @property
    def folder(self) -> Path:
        """The hidden directory."""
        return self.output.with_name(f".{self.output.name}.step")

    @property
    def unfinished(self) -> Path:
        """The directory being built."""
        return self.folder / "unfinished"

    @property
    def replaced(self) -> Path:
        """The former output."""
        return self.folder / "replaced"

    def exists(self) -> bool:
        """Whether a run works here, or was interrupted."""
        return self.folder.exists() or self.folder.is_symlink()

    def is_begun(self, fingerprint: str) -> bool:
        """Whether a run with this fingerprint works here, or was interrupted."""
        return self.unfinished.is_dir() and self._mark().get("fingerprint") == fingerprint

    def provenance(self) -> Provenance | None:
        """That of an interrupted run, if there is one."""
        return read_provenance(self._mark().get("made_from")) if self.unfinished.is_dir() else None

    def restore(self) -> None:
        """Put the former output back if a run was killed before it put the new one in its place."""
        self._require_ours()
        if self.replaced.exists() and not self.output.exists():
            self.replaced.rename(self.output)

    def start(self, fingerprint: str, provenance: Provenance | None = None) -> Path:
        """An empty directory to build in."""
        self.clear()
        self.folder.mkdir()
        mark = {
            "output": self.output.name,
            "fingerprint": fingerprint,
            "made_from": provenance and provenance.as_json(),
        }
        place, temporary = _marks(self.folder)
        temporary.write_text(json.dumps(mark, ensure_ascii=False), encoding="utf-8")
        temporary.replace(place)
        self.unfinished.mkdir()
        return self.unfinished

    def finish(self) -> None:
        """Put the directory in the place of the output; a kill in between leaves one, the other or none."""
        if self.output.exists() or self.output.is_symlink():
            self.output.rename(self.replaced)
        self.unfinished.rename(self.output)
        self.clear()

    def clear(self) -> None:
        """Delete all that is here, the mark last: the rest that a kill leaves is still known as ours.

        Raises:
            InputError: if this program did not make it.
        """
        if not self.exists():
            return
        self._require_ours()
        for path in (self.unfinished, self.replaced):
            if path.is_symlink():
                path.unlink()
            elif path.exists():
                shutil.rmtree(path)
        for path in _marks(self.folder):
            path.unlink(missing_ok=True)
        self.folder.rmdir()

    def _require_ours(self) -> None:
        """Check that nothing but a step of this output was here; a kill may leave no mark, but then nothing else."""
        if not self.exists():
            return
        found = set(self.folder.iterdir()) if self.folder.is_dir() and not self.folder.is_symlink() else {self.output}
        others = found - {*_marks(self.folder)}
        if not others <= {self.unfinished, self.replaced} or (others and not self._mark()):
            raise InputError(
                f"{self.folder}: is in the way, and not all in it is of the step {self.output.name}; move it away"
            )

    def _mark(self) -> dict[str, Any]:
        mark = read_json_object(self.folder / MARK)
        return mark if mark.get("output") == self.output.name else {}


def _marks(folder: Path) -> tuple[Path, Path]:
    """The mark, and its name while it is being written: a whole mark or none is there."""
    return folder / MARK, folder / f"{MARK}.next"


@contextmanager
def locked(output: Path) -> Iterator[None]:
    """Be the only process that builds an output.

    Raises:
        InputError: if another one does.
    """
    # The file stays behind: removing a lock file lets two processes lock two files of one name.
    with output.with_name(f".{output.name}.lock").open("a") as file:
        deadline = time.monotonic() + _LOCK_SECONDS
        while True:
            try:
                fcntl.flock(file.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > deadline:
                    raise InputError(f"{output}: another process is building it; wait until it has ended") from None
                time.sleep(_POLL_SECONDS)
        yield
