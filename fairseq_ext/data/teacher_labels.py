"""Teacher labels on disk: for every sentence a probability distribution over the domains.

``teacher.json`` names the domains in column order, ``DOMAIN/SPLIT.npy`` holds one float32 row a
sentence, in the order of ``splits/DOMAIN/SPLIT.LANG``. Rows are counted from 1 in messages, as lines are.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from fairseq_ext.engine.steps import atomic_write
from fairseq_ext.inputs.array_file import map_array
from fairseq_ext.inputs.errors import InputError
from fairseq_ext.inputs.json_file import is_texts, read_json

TEACHER_FILE = "teacher.json"
# A float32 softmax over any sensible number of domains sums to one far more closely than this.
_SUM_TOLERANCE = 1e-3
_REMEDY = "make it with data-prep/train_teacher.py"


def label_path(teacher_dir: Path, domain: str, split: str) -> Path:
    """Where the labels of a set lie."""
    return teacher_dir / domain / f"{split}.npy"


def write_teacher_record(teacher_dir: Path, domains: Sequence[str], backend: str, metrics: Mapping[str, Any]) -> None:
    """Write ``teacher.json``: the domains in column order, the kind of classifier and its quality."""
    record = {"domains": list(domains), "backend": backend, "metrics": metrics}
    with atomic_write(teacher_dir / TEACHER_FILE) as temporary:
        temporary.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


def read_teacher_record(teacher_dir: Path) -> dict[str, Any]:
    """Read ``teacher.json``.

    Raises:
        InputError: if it is missing or not what :func:`write_teacher_record` writes.
    """
    path = teacher_dir / TEACHER_FILE
    record = read_json(path, _REMEDY)
    if not is_texts(record.get("domains")) or not isinstance(record.get("backend"), str):
        raise InputError(f"{path}: lacks 'domains' or 'backend'; {_REMEDY}")
    return record


def write_probs(path: Path, probs: np.ndarray) -> None:
    """Write probabilities as float32, N×D; the name appears only when the file is complete."""
    with atomic_write(path) as temporary:
        np.save(temporary, probs.astype(np.float32), allow_pickle=False)


def read_teacher_probs(teacher_dir: Path, domain: str, split: str, domains: Sequence[str], num_rows: int) -> np.ndarray:
    """Return the labels of a set, memory-mapped and checked.

    Args:
        teacher_dir: folder with ``teacher.json``.
        domain: domain of the sentences.
        split: ``train``, ``valid`` or ``test``.
        domains: D domains in the order that the caller wants the columns in.
        num_rows: N, sentences in the set.

    Shape:
        result: N×D, float32, rows sum to 1

    Raises:
        InputError: naming the file and the first bad row: missing file, other domains or another order,
            too few or too many rows, or a row that is no distribution.
    """
    recorded = read_teacher_record(teacher_dir)["domains"]
    if recorded != list(domains):
        raise InputError(
            f"{teacher_dir / TEACHER_FILE}: its domains are {recorded}, those of the data {list(domains)}; "
            "train the teacher on the same corpora"
        )
    path = label_path(teacher_dir, domain, split)
    probs = load_probs(path, len(domains))
    if len(probs) != num_rows:
        excess = "missing" if len(probs) < num_rows else "too many"
        row = min(len(probs), num_rows) + 1
        raise InputError(
            f"{path}: has {len(probs)} rows for {num_rows} sentences, row {row} is the first {excess}; "
            "label the set again"
        )
    return probs


def load_probs(path: Path, num_domains: int) -> np.ndarray:
    """Map a label file into memory and check that every row is a distribution over the domains.

    Raises:
        InputError: naming the file, and the first bad row if the file as such can be used.
    """
    probs = map_array(path, _REMEDY)
    if probs.dtype != np.float32 or probs.ndim != 2:
        raise InputError(f"{path}: must be a two-dimensional float32 array")
    if probs.shape[1] != num_domains:
        raise InputError(f"{path}: {probs.shape[1]} columns for {num_domains} domains; label the set again")
    _check_rows(probs, path)
    return probs


def _check_rows(probs: np.ndarray, path: Path) -> None:
    # Written so that NaN fails: every comparison with it is false.
    is_distribution = (probs >= 0).all(axis=1) & (np.abs(probs.sum(axis=1) - 1) <= _SUM_TOLERANCE)
    if is_distribution.all():
        return
    row = int(np.argmin(is_distribution))
    values = np.array2string(np.asarray(probs[row]), precision=4, separator=", ", threshold=12)
    raise InputError(f"{path}, row {row + 1}: {values} is no distribution (not negative, sum 1); label the set again")
