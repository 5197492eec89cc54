"""What a finished step leaves in its directory, ``step.json``: what it was made from, and which files it wrote."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fairseq_ext.engine.hashing import RECORD, hash_file, hash_path, relative_files
from fairseq_ext.engine.origins import Origin, read_origin
from fairseq_ext.inputs.errors import InputError


@dataclass(frozen=True)
class Record:
    """A finished step.

    Attributes:
        fingerprint: SHA-256 of all that it was made from.
        sizes: of the files it wrote, in bytes, by relative name.
        hashes: their SHA-256; empty in a record of an earlier version.
        origin: what it was made from; None in a record of an earlier version.
    """

    fingerprint: str
    sizes: Mapping[str, int]
    hashes: Mapping[str, str]
    origin: Origin | None = None


def write_record(directory: Path, origin: Origin) -> None:
    """Record all files of a directory, which is complete with this."""
    names = relative_files(directory)
    record = {
        "fingerprint": origin.fingerprint,
        "made_from": origin.as_json(),
        "outputs": {name: (directory / name).stat().st_size for name in names},
        "sha256": {name: hash_file(directory / name) for name in names},
    }
    (directory / RECORD).write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


def read_record(directory: Path) -> Record | None:
    """The record of a directory; None if there is none, or none that a step can have written."""
    try:
        record = json.loads((directory / RECORD).read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return None
    if not isinstance(record, dict):
        return None
    fingerprint: Any = record.get("fingerprint")
    sizes: Any = record.get("outputs")
    hashes: Any = record.get("sha256", {})
    if not isinstance(fingerprint, str) or not _is_mapping_to(sizes, int) or not _is_mapping_to(hashes, str):
        return None
    return Record(fingerprint, sizes, hashes, read_origin(record.get("made_from")))


def is_finished(output: Path, fingerprint: str) -> bool:
    """Whether the directory was completed with this fingerprint and all its files are still there."""
    record = read_record(output)
    return record is not None and record.fingerprint == fingerprint and has_all_files(output, record)


def has_all_files(output: Path, record: Record) -> bool:
    """Whether all files of a finished step are there, in their sizes."""
    try:
        return all((output / name).stat().st_size == size for name, size in record.sizes.items())
    except OSError:
        return False


def input_hash(path: Path) -> str:
    """SHA-256 of an input's contents; what a step made must still be what it made.

    Raises:
        InputError: naming a file that has changed since.
    """
    for folder in (path, *path.parents):
        record = read_record(folder)
        if record is not None:
            names = [name for name in record.hashes if path in (folder, *_with_parents(folder / name))]
            check_contents(folder, record, names)
            break
    return hash_path(path)


def check_contents(output: Path, record: Record, names: Sequence[str]) -> None:
    """Read files of a finished step again.

    Args:
        output: the step's directory.
        record: read there.
        names: of the files.

    Raises:
        InputError: naming the first that is not as the step wrote it.
    """
    for name in names:
        file = output / name
        if not file.is_file() or hash_file(file) != record.hashes[name]:
            raise InputError(
                f"{file}: damaged or edited since the step {output.name} wrote it; put the right file back, or move "
                f"{output} away and run the command that makes it"
            )


def foreign_files(output: Path, record: Record) -> list[str]:
    """The files in a finished step's directory that the step did not write, by relative name."""
    return [name for name in relative_files(output) if name not in record.sizes]


def _with_parents(path: Path) -> list[Path]:
    return [path, *path.parents]


def _is_mapping_to(value: Any, kind: type) -> bool:
    return isinstance(value, dict) and all(type(item) is kind for item in value.values())
