"""Provenance and contents of a step's directory: ``step.json``, the last file that a step writes."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fairseq_ext.base.errors import InputError
from fairseq_ext.base.hashing import RECORD, hash_file, hash_path, relative_files

# Key of a step's options that holds additional command-line options, a list.
EXTRA = "extra"
_MOST_CHANGES = 3
_LONGEST_VALUE = 60


@dataclass(frozen=True)
class Provenance:
    """The origin of a directory: the options of its step, and the SHA-256 of its inputs, in the step's order."""

    options: Mapping[str, Any]
    inputs: Sequence[str]

    @property
    def fingerprint(self) -> str:
        """SHA-256 of options and inputs; independent of the inputs' locations."""
        return hashlib.sha256(self._text().encode()).hexdigest()

    def as_json(self) -> dict[str, Any]:
        """Return the provenance as JSON values."""
        return json.loads(self._text())

    def _text(self) -> str:
        content = {"options": dict(self.options), "inputs": list(self.inputs)}
        return json.dumps(content, sort_keys=True, ensure_ascii=False)


@dataclass(frozen=True)
class StepRecord:
    """The contents of ``step.json``."""

    fingerprint: str  # of the directory's provenance
    sizes: Mapping[str, int]  # of its files in bytes, by relative name
    hashes: Mapping[str, str]  # SHA-256 of its files, by relative name
    provenance: Provenance


def write_record(directory: Path, provenance: Provenance) -> None:
    """Record all files of a directory. This completes the directory."""
    names = relative_files(directory)
    record = {
        "fingerprint": provenance.fingerprint,
        "made_from": provenance.as_json(),
        "outputs": {name: (directory / name).stat().st_size for name in names},
        "sha256": {name: hash_file(directory / name) for name in names},
    }
    (directory / RECORD).write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


def read_json_object(path: Path) -> dict[str, Any]:
    """Return the object in a JSON file; an empty dictionary if the file has no object."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    return content if isinstance(content, dict) else {}


def read_record(directory: Path) -> StepRecord | None:
    """Return the record of a directory; None if it is missing or invalid."""
    record = read_json_object(directory / RECORD)
    fingerprint, sizes, hashes = (record.get(key) for key in ("fingerprint", "outputs", "sha256"))
    provenance = read_provenance(record.get("made_from"))
    is_whole = isinstance(fingerprint, str) and _is_mapping_to(int, sizes) and _is_mapping_to(str, hashes)
    return StepRecord(fingerprint, sizes, hashes, provenance) if is_whole and provenance else None  # type: ignore[arg-type]


def read_provenance(value: Any) -> Provenance | None:
    """Return the provenance in a JSON value; None if it is missing or damaged."""
    record = value if isinstance(value, dict) else {}
    options, inputs = record.get("options"), record.get("inputs")
    return Provenance(options, inputs) if isinstance(options, dict) and isinstance(inputs, list) else None


def is_finished(output: Path, fingerprint: str) -> bool:
    """Return whether a directory was completed with this fingerprint and still has all its files."""
    record = read_record(output)
    return record is not None and record.fingerprint == fingerprint and has_all_files(output, record)


def has_all_files(output: Path, record: StepRecord) -> bool:
    """Return whether all recorded files exist with their recorded sizes."""
    try:
        return all((output / name).stat().st_size == size for name, size in record.sizes.items())
    except OSError:
        return False


def provenance_of(name: str, inputs: Sequence[Path], options: Mapping[str, Any]) -> Provenance:
    """Return the provenance of a directory from the current contents of its inputs; their locations are ignored."""
    for path in inputs:
        if not path.exists():
            raise InputError(f"{name}: its input {path} does not exist; create it first")
    return Provenance(options, [_input_hash(path) for path in inputs])


def _input_hash(path: Path) -> str:
    """Return the SHA-256 of an input's contents. If a step wrote the file, check that it is unchanged."""
    for folder in (path, *path.parents):
        record = read_record(folder)
        if record is not None:
            check_contents(folder, record, [name for name in record.hashes if (folder / name).is_relative_to(path)])
            break
    return hash_path(path)


def check_contents(output: Path, record: StepRecord, names: Sequence[str]) -> None:
    """Check that files of a finished step match its record."""
    for name in names:
        file = output / name
        if not file.is_file() or hash_file(file) != record.hashes[name]:
            raise InputError(
                f"{file}: damaged or edited since step {output.name} wrote it; restore the file, or move "
                f"{output} away and run the command that creates it"
            )


def changes(before: Provenance, now: Provenance, inputs: Sequence[str]) -> str:
    """Describe the differences between two provenances in one line; ``inputs`` are the names of the inputs."""
    old, new = (dict(_leaves(provenance.as_json()["options"])) for provenance in (before, now))
    names = [name for name in {**old, **new} if old.get(name) != new.get(name)]
    lines = [f"{name} was {_shown(old.get(name))}, is {_shown(new.get(name))}" for name in names]
    if len(before.inputs) != len(inputs):
        lines.append("the number of its inputs has changed")
    else:
        hashes = zip(inputs, before.inputs, now.inputs, strict=True)
        lines += [f"its input {name} has changed" for name, then, hash_ in hashes if then != hash_]
    more = [f"{len(lines) - _MOST_CHANGES} more changes"] if len(lines) > _MOST_CHANGES else []
    return "; ".join([*lines[:_MOST_CHANGES], *more])


def _leaves(options: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, str]]:
    """Yield each value as text with the keys that lead to it."""
    for key, value in options.items():
        if isinstance(value, dict) and value:
            yield from _leaves(value, f"{prefix}{key}: ")
        elif key == EXTRA and isinstance(value, list):
            yield "command line", json.dumps(" ".join(map(str, value)), ensure_ascii=False)
        else:
            yield f"{prefix}{key}", json.dumps(value, ensure_ascii=False)


def _shown(text: str | None) -> str:
    if text is None:
        return "not given"
    return text if len(text) <= _LONGEST_VALUE else f"{text[:_LONGEST_VALUE]}…"


def _is_mapping_to(kind: type, value: Any) -> bool:
    return isinstance(value, dict) and all(type(item) is kind for item in value.values())
