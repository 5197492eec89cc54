"""Teacher labels on disk: a probability distribution over the domains for every sentence.

``teacher.json`` lists the domains in column order; ``has_base`` says that one more column is the class ``base``, text
of no domain. ``DOMAIN/SPLIT.npy`` has one float16 row per sentence, in the order of ``splits/DOMAIN/SPLIT.LANG``.
Messages count rows from 1, like lines.

A row of zeros means that the sentence has no label. Such rows are only allowed in the training text of domains that
``teacher.json`` lists as ``unlabelled``; elsewhere they are an error, as damaged files contain zeros.

``teacher.json`` also records each file's size and SHA-256. Opening a file only checks its size and shape; rows are
checked when used.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from fairseq_ext.base.array_file import map_array
from fairseq_ext.base.domain_names import BASE_ROUTE
from fairseq_ext.base.errors import InputError
from fairseq_ext.base.hashing import hash_file
from fairseq_ext.base.json_file import is_texts, read_json
from fairseq_ext.base.steps import atomic_write

TEACHER_FILE = "teacher.json"
DTYPE = np.dtype(np.float16)
# Rounding to float16 moves the sum of a row by at most 0.0005, for any number of domains.
_SUM_TOLERANCE = 1e-3
# Smaller values would become zero, whose logarithm is infinite.
_LEAST = np.finfo(DTYPE).smallest_subnormal
_BLOCK_ROWS = 1 << 16
_REMEDY = "create it with fairseq-ext teacher"


@dataclass(frozen=True)
class TeacherLabels:
    """The memory-mapped labels of a split of a domain; rows are checked when read.

    Attributes:
        path: path of the file, for error messages.
        raw: N×D, float16; float32 if made in memory.
        may_lack: whether rows may be all zero (no label).
        num_used: number of columns to return, to leave out the base model, which has no adapter; None for all.
    """

    path: Path
    raw: np.ndarray
    may_lack: bool = False
    num_used: int | None = None

    def __len__(self) -> int:
        return len(self.raw)

    def __getitem__(self, rows: Any) -> np.ndarray:
        """Return rows as float32, K×D, or one row, D; they sum to 1 or, if ``may_lack``, may be all zero."""
        probs = np.asarray(self.raw[rows], dtype=np.float32)
        with np.errstate(invalid="ignore"):
            totals = probs.sum(axis=-1, keepdims=True)
        # NaN fails, as every comparison with it is false.
        is_good = (probs >= 0).all(axis=-1) & (np.abs(totals[..., 0] - 1) <= _SUM_TOLERANCE)
        if self.may_lack:
            is_good |= (probs == 0).all(axis=-1)
            totals = np.where(totals == 0, 1, totals)
        if not is_good.all():
            row = int(np.arange(len(self))[rows].reshape(-1)[np.argmin(is_good)])
            values = np.array2string(np.asarray(self.raw[row]), precision=4, separator=", ", threshold=12)
            raise InputError(
                f"{self.path}, row {row + 1}: {values} is not a distribution (≥ 0, sum 1); label the set again"
            )
        return (probs / totals if self.raw.dtype == DTYPE else probs)[..., : self.num_used]

    @classmethod
    def read_each(cls, places: Sequence[tuple[TeacherLabels, int]]) -> np.ndarray:
        """Return rows of several files in the given order, B×D, float32."""
        numbers = np.array([row for _, row in places])
        files = [labels for labels, _ in places]
        probs = np.empty((len(places), files[0].raw.shape[1]), dtype=np.float32)
        for labels in {id(each): each for each in files}.values():
            is_here = np.array([each is labels for each in files])
            probs[is_here] = labels[numbers[is_here]]
        return probs

    def best(self, least: float = 0.0) -> np.ndarray:
        """Return the most probable class of every sentence, N; -1 if it is less probable than ``least``."""
        blocks = (self[start : start + _BLOCK_ROWS] for start in range(0, len(self), _BLOCK_ROWS))
        best = (np.where(rows.max(axis=1) < least, -1, rows.argmax(axis=1)) for rows in blocks)
        return np.concatenate([np.empty(0, dtype=np.int64), *best])


def label_path(teacher_dir: Path, domain: str, split: str) -> Path:
    """Return the path of the labels of a domain's split."""
    return teacher_dir / domain / f"{split}.npy"


def write_teacher_record(
    teacher_dir: Path, domains: Sequence[str], backend: str, metrics: Mapping[str, Any], **facts: Any
) -> None:
    """Write ``teacher.json``: the domains in column order, the classifier's kind, its metrics, and the label files."""
    files = sorted(path for name in (*domains, BASE_ROUTE) for path in (teacher_dir / name).glob("*.npy"))
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
    kinds = {"backend": str, "labels": dict}
    if not is_texts(record.get("domains")) or not all(isinstance(record.get(key), kinds[key]) for key in kinds):
        raise InputError(f"{path}: lacks 'domains', 'backend' or 'labels'; {_REMEDY}")
    return {"unlabelled": [], "has_base": False, **record}


def classes_of(record: Mapping[str, Any]) -> list[str]:
    """Return the classifier's classes in column order: the domains and, if it has this class, ``base``."""
    return [*record["domains"], *([BASE_ROUTE] if record["has_base"] else [])]


def as_labels(probs: np.ndarray) -> np.ndarray:
    """Convert probabilities, N×D, to float16 so that no positive one becomes zero."""
    return np.where(probs > 0, np.maximum(probs.astype(DTYPE), _LEAST), probs).astype(DTYPE)


def write_probs(path: Path, probs: np.ndarray) -> None:
    """Write probabilities, N×D, atomically."""
    with atomic_write(path) as temporary:
        np.save(temporary, as_labels(probs), allow_pickle=False)


def read_teacher_probs(
    teacher_dir: Path, domain: str, split: str, domains: Sequence[str], num_rows: int
) -> TeacherLabels:
    """Open and check the labels of a domain's split."""
    record = read_teacher_record(teacher_dir)
    if record["domains"] != list(domains):
        raise InputError(
            f"{teacher_dir / TEACHER_FILE}: has domains {record['domains']}, but the data has {list(domains)}; "
            "train the teacher on the same corpora"
        )
    path = label_path(teacher_dir, domain, split)
    labels = open_labels(path, len(classes_of(record)))
    if split == "train" and domain in record["unlabelled"]:
        labels = replace(labels, may_lack=True)
    if len(labels) != num_rows:
        raise InputError(f"{path}: has {len(labels)} rows for {num_rows} sentences; label the set again")
    recorded = record["labels"].get(path.relative_to(teacher_dir).as_posix())
    if recorded and path.stat().st_size != recorded["bytes"]:
        raise _is_changed(path)
    return labels


def open_labels(path: Path, num_classes: int) -> TeacherLabels:
    """Memory-map a label file."""
    probs = map_array(path, _REMEDY)
    if probs.dtype not in (DTYPE, np.float32) or probs.ndim != 2:
        raise InputError(f"{path}: must be a two-dimensional float16 or float32 array; {_REMEDY}")
    if probs.shape[1] != num_classes:
        raise InputError(f"{path}: has {probs.shape[1]} columns for {num_classes} domains; label the set again")
    return TeacherLabels(path, probs)


def check_labels(teacher_dir: Path) -> int:
    """Check the SHA-256 of all recorded label files; return their number."""
    labels = read_teacher_record(teacher_dir)["labels"]
    for name, recorded in labels.items():
        path = teacher_dir / name
        if not path.is_file():
            raise InputError(f"{path}: not found; {_REMEDY}")
        if hash_file(path) != recorded["sha256"]:
            raise _is_changed(path)
    return len(labels)


def _is_changed(path: Path) -> InputError:
    return InputError(f"{path}: differs from its record in {TEACHER_FILE}; restore it, or label the set again")
