"""Staging directories: the hidden directory next to an output in which its step works.

::

    work/.mix.step/step-workspace.json      the fingerprint and the provenance
    work/.mix.step/unfinished/              becomes work/mix when complete
    work/.mix.step/replaced/                the previous work/mix

No output's name starts with a dot, so these names are not used otherwise.
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

from fairseq_ext.base.errors import InputError
from fairseq_ext.base.provenance import Provenance, read_json_object, read_provenance

# A killed process may take this long to end.
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
        """The directory in which the step builds its output."""
        return self.folder / "unfinished"

    @property
    def _mark(self) -> Path:
        return self.folder / "step-workspace.json"

    def exists(self) -> bool:
        """Return whether a run is in progress or was interrupted."""
        return self.folder.exists()

    def is_begun(self, fingerprint: str) -> bool:
        """Return whether a run with this fingerprint is in progress or was interrupted."""
        return self.unfinished.is_dir() and read_json_object(self._mark).get("fingerprint") == fingerprint

    def provenance(self) -> Provenance | None:
        """Return the provenance of an interrupted run; None if there is none."""
        return read_provenance(read_json_object(self._mark).get("made_from")) if self.unfinished.is_dir() else None

    def start(self, fingerprint: str, provenance: Provenance | None = None) -> Path:
        """Create an empty directory to build in, and return its path."""
        self.clear()
        self.folder.mkdir()
        mark = {"fingerprint": fingerprint, "made_from": provenance and provenance.as_json()}
        self._mark.write_text(json.dumps(mark, ensure_ascii=False), encoding="utf-8")
        self.unfinished.mkdir()
        return self.unfinished

    def finish(self) -> None:
        """Replace the output. If the process is killed, the old output, the new output or no output remains."""
        if self.output.exists() or self.output.is_symlink():
            self.output.rename(self.folder / "replaced")
        self.unfinished.rename(self.output)
        self.clear()

    def clear(self) -> None:
        """Delete the staging directory."""
        if self.exists():
            shutil.rmtree(self.folder)


@contextmanager
def locked(output: Path) -> Iterator[None]:
    """Hold an exclusive lock for building an output."""
    # The file is kept: if it were removed, two processes could lock two files of the same name.
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
