"""SHA-256 of files and directories. A process reads each file only once unless it changes."""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Collection
from pathlib import Path

# Record of a finished step; not part of its contents.
RECORD = "step.json"
# File times have a limited resolution: a file changed this recently may change again without a new time.
_SETTLED_NS = 2_000_000_000
_Identity = tuple[int, ...]
_known: dict[_Identity, str] = {}


def hash_path(path: Path) -> str:
    """Return the SHA-256 of a file's bytes, or of a directory's relative names and bytes without its record."""
    if path.is_file():
        return hash_file(path)
    digest = hashlib.sha256()
    for name in relative_files(path):
        digest.update(f"{name}\0{hash_file(path / name)}\n".encode())
    return digest.hexdigest()


def hash_file(path: Path) -> str:
    """Return the SHA-256 of a file's bytes."""
    with path.open("rb") as file:
        before = os.fstat(file.fileno())
        identity = _identity(before)
        if (known := _known.get(identity)) is not None:
            return known
        found = hashlib.file_digest(file, hashlib.sha256).hexdigest()
        is_settled = time.time_ns() - max(before.st_mtime_ns, before.st_ctime_ns) > _SETTLED_NS
        if is_settled and _identity(os.fstat(file.fileno())) == identity:
            _known[identity] = found
    return found


def relative_files(directory: Path) -> list[str]:
    """Return the sorted relative names of the files below a directory, without its record."""
    files = (path.relative_to(directory).as_posix() for path in directory.rglob("*") if path.is_file())
    return sorted(name for name in files if name != RECORD)


def foreign_entries(directory: Path, own: Collection[str]) -> list[str]:
    """Return the sorted relative names of files, links, pipes, … below a directory other than some own ones."""
    paths = (path for path in directory.rglob("*") if path.is_symlink() or not path.is_dir())
    return sorted({path.relative_to(directory).as_posix() for path in paths} - {RECORD, *own})


def _identity(stat: os.stat_result) -> _Identity:
    return stat.st_dev, stat.st_ino, stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns
