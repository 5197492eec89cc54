"""Teacher labels on disk: for every sentence a probability distribution over the domains.

``teacher.json`` names the domains in column order, ``DOMAIN/SPLIT.npy`` holds one float16 row a sentence, in the order
of ``splits/DOMAIN/SPLIT.LANG``; earlier versions wrote float32, which is read as it is. Rows are counted from 1 in
messages, as lines are.

A row of zeros is no label. It is taken for one only in the training text of domains that ``teacher.json`` lists as
``unlabelled``; elsewhere it is an error, as zeros are what a damaged file has.

``teacher.json`` also records each file's size and SHA-256. A recorded file is not read at the start: its size and shape
are compared, and rows are checked as they are used.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from fairseq_ext.engine.hashing import hash_file
from fairseq_ext.engine.steps import atomic_write
from fairseq_ext.inputs.array_file import map_array
from fairseq_ext.inputs.errors import InputError
from fairseq_ext.inputs.json_file import is_texts, read_json

TEACHER_FILE = "teacher.json"
DTYPE = np.dtype(np.float16)
# Rounding to float16 moves the sum of a row by at most 0.0005, whatever the number of domains.
_SUM_TOLERANCE = 1e-3
# What is smaller would become zero, which has no logarithm.
_LEAST = np.finfo(DTYPE).smallest_subnormal
_BLOCK_ROWS = 1 << 16
_REMEDY = "make it with fairseq-ext teacher"


@dataclass(frozen=True)
class TeacherLabels:
    """The labels of a set, mapped into memory; rows are checked as they are read.

    Attributes:
        path: of their file, for messages.
        raw: N×D, float16, or float32 of an earlier version.
        may_lack: whether rows may be zero throughout, for no label.
    """

    path: Path
    raw: np.ndarray
    may_lack: bool = False

    def __len__(self) -> int:
        return len(self.raw)

    def __getitem__(self, rows: Any) -> np.ndarray:
        """Some rows as float32, K×D, or one, D; they sum to 1, or are zero where they may be."""
        probs = np.asarray(self.raw[rows], dtype=np.float32)
        with np.errstate(invalid="ignore"):
            totals = probs.sum(axis=-1, keepdims=True)
        # Written so that NaN fails: every comparison with it is false.
        is_good = (probs >= 0).all(axis=-1) & (np.abs(totals[..., 0] - 1) <= _SUM_TOLERANCE)
        if self.may_lack:
            is_good |= (probs == 0).all(axis=-1)
            totals = np.where(totals == 0, 1, totals)
        if not is_good.all():
            row = int(np.arange(len(self))[rows].reshape(-1)[np.argmin(is_good)])
            values = np.array2string(np.asarray(self.raw[row]), precision=4, separator=", ", threshold=12)
            raise InputError(
                f"{self.path}, row {row + 1}: {values} is no distribution (not negative, sum 1); label the set again"
            )
        return probs / totals if self.raw.dtype == DTYPE else probs

    @classmethod
    def read_each(cls, places: Sequence[tuple[TeacherLabels, int]]) -> np.ndarray:
        """Rows of several files, B×D, float32, in the order that is asked for."""
        numbers = np.array([row for _, row in places])
        files = [labels for labels, _ in places]
        probs = np.empty((len(places), files[0].raw.shape[1]), dtype=np.float32)
        for labels in {id(each): each for each in files}.values():
            is_here = np.array([each is labels for each in files])
            probs[is_here] = labels[numbers[is_here]]
        return probs

    def best(self) -> np.ndarray:
        """The likeliest domain of every sentence, N; each row is checked."""
        blocks = [self[start : start + _BLOCK_ROWS].argmax(axis=1) for start in range(0, len(self), _BLOCK_ROWS)]
        return np.concatenate([np.empty(0, dtype=np.int64), *blocks])


def label_path(teacher_dir: Path, domain: str, split: str) -> Path:
    """Where the labels of a set lie."""
    return teacher_dir / domain / f"{split}.npy"


def write_teacher_record(
    teacher_dir: Path, domains: Sequence[str], backend: str, metrics: Mapping[str, Any], **facts: Any
) -> None:
    """Write ``teacher.json``: the domains in column order, the classifier's kind, its quality, and the label files."""
    files = sorted(path for domain in domains for path in (teacher_dir / domain).glob("*.npy"))
    labels = {
        path.relative_to(teacher_dir).as_posix(): {"bytes": path.stat().st_size, "sha256": hash_file(path)}
        for path in files
    }
    record = {"domains": list(domains), "backend": backend, **facts, "metrics": metrics, "labels": labels}
    with atomic_write(teacher_dir / TEACHER_FILE) as temporary:
        temporary.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


def read_teacher_record(teacher_dir: Path) -> dict[str, Any]:
    """Read ``teacher.json``."""
    path = teacher_dir / TEACHER_FILE
    record = read_json(path, _REMEDY)
    if not is_texts(record.get("domains")) or not isinstance(record.get("backend"), str):
        raise InputError(f"{path}: lacks 'domains' or 'backend'; {_REMEDY}")
    return {"labels": {}, "unlabelled": [], **record}  # earlier versions recorded no labels


def as_labels(probs: np.ndarray) -> np.ndarray:
    """Probabilities as float16, N×D, in which none that is above zero becomes zero."""
    return np.where(probs > 0, np.maximum(probs.astype(DTYPE), _LEAST), probs).astype(DTYPE)


def write_probs(path: Path, probs: np.ndarray) -> None:
    """Write probabilities, N×D; the name appears only when the file is complete."""
    with atomic_write(path) as temporary:
        np.save(temporary, as_labels(probs), allow_pickle=False)


def read_teacher_probs(
    teacher_dir: Path, domain: str, split: str, domains: Sequence[str], num_rows: int
) -> TeacherLabels:
    """Open the labels of a set."""
    record = read_teacher_record(teacher_dir)
    if record["domains"] != list(domains):
        raise InputError(
            f"{teacher_dir / TEACHER_FILE}: its domains are {record['domains']}, those of the data {list(domains)}; "
            "train the teacher on the same corpora"
        )
    path = label_path(teacher_dir, domain, split)
    labels = open_labels(path, len(domains))
    if split == "train" and domain in record["unlabelled"]:
        labels = replace(labels, may_lack=True)
    if len(labels) != num_rows:
        raise InputError(f"{path}: has {len(labels)} rows for {num_rows} sentences; label the set again")
    recorded = record["labels"].get(path.relative_to(teacher_dir).as_posix())
    if recorded and path.stat().st_size != recorded["bytes"]:
        raise _is_changed(path)
    return labels


def open_labels(path: Path, num_domains: int) -> TeacherLabels:
    """Map a label file into memory."""
    probs = map_array(path, _REMEDY)
    if probs.dtype not in (DTYPE, np.float32) or probs.ndim != 2:
        raise InputError(f"{path}: must be a two-dimensional float16 or float32 array")
    if probs.shape[1] != num_domains:
        raise InputError(f"{path}: {probs.shape[1]} columns for {num_domains} domains; label the set again")
    return TeacherLabels(path, probs)


def check_labels(teacher_dir: Path) -> int:
    """Compare the SHA-256 of all label files that are recorded; returns how many there are."""
    labels = read_teacher_record(teacher_dir)["labels"]
    for name, recorded in labels.items():
        path = teacher_dir / name
        if not path.is_file():
            raise InputError(f"{path}: not found; {_REMEDY}")
        if hash_file(path) != recorded["sha256"]:
            raise _is_changed(path)
    return len(labels)


def _is_changed(path: Path) -> InputError:
    return InputError(f"{path}: is not as {TEACHER_FILE} recorded it; put the right file back, or label the set again")
