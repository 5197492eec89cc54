"""Label files: what is not a distribution over the right domains does not get into training."""

from pathlib import Path

import numpy as np
import pytest

from fairseq_ext.data.teacher_labels import (
    TEACHER_FILE,
    label_path,
    read_teacher_probs,
    write_probs,
    write_teacher_record,
)
from fairseq_ext.inputs.errors import InputError

DOMAINS = ["bank", "garden", "law"]


@pytest.fixture
def probs() -> np.ndarray:
    return np.random.default_rng(0).dirichlet([1.0] * 3, size=8).astype(np.float32)


@pytest.fixture
def teacher(tmp_path: Path, probs: np.ndarray) -> Path:
    write_teacher_record(tmp_path, DOMAINS, "tfidf", {})
    write_probs(label_path(tmp_path, "bank", "train"), probs)
    return tmp_path


def test_what_is_written_is_read(teacher: Path, probs: np.ndarray) -> None:
    read = read_teacher_probs(teacher, "bank", "train", DOMAINS, 8)
    assert isinstance(read, np.memmap)
    assert read.dtype == np.float32
    np.testing.assert_array_equal(read, probs)


@pytest.mark.parametrize(
    ("num_rows", "message"),
    [
        (9, r"train\.npy: has 8 rows for 9 sentences, row 9 is the first missing"),
        (5, r"row 6 is the first too many"),
    ],
)
def test_number_of_rows_must_fit(teacher: Path, num_rows: int, message: str) -> None:
    with pytest.raises(InputError, match=message):
        read_teacher_probs(teacher, "bank", "train", DOMAINS, num_rows)


@pytest.mark.parametrize("row", [[0.5, 0.6, -0.1], [np.nan, 0.5, 0.5], [0.5, 0.5, 0.1], [np.inf, 0, 0], [0, 0, 0]])
def test_first_bad_row_is_named(teacher: Path, probs: np.ndarray, row: list[float]) -> None:
    probs[[4, 6]] = row
    write_probs(label_path(teacher, "bank", "train"), probs)
    with pytest.raises(InputError, match=r"train\.npy, row 5: \[.*\] is no distribution"):
        read_teacher_probs(teacher, "bank", "train", DOMAINS, 8)


def test_other_domains_or_another_order_are_refused(teacher: Path) -> None:
    for domains in (["bank", "law", "garden"], ["bank", "garden"]):
        with pytest.raises(InputError, match=r"teacher\.json: its domains are \['bank', 'garden', 'law'\]"):
            read_teacher_probs(teacher, "bank", "train", domains, 8)


def test_missing_and_foreign_files_are_named(teacher: Path, probs: np.ndarray) -> None:
    with pytest.raises(InputError, match=r"valid\.npy: not found"):
        read_teacher_probs(teacher, "bank", "valid", DOMAINS, 8)
    with pytest.raises(InputError, match=r"teacher\.json: not found"):
        read_teacher_probs(teacher / "nowhere", "bank", "train", DOMAINS, 8)
    np.save(label_path(teacher, "bank", "train"), probs.astype(np.float64))
    with pytest.raises(InputError, match="two-dimensional float32"):
        read_teacher_probs(teacher, "bank", "train", DOMAINS, 8)
    np.save(label_path(teacher, "bank", "train"), probs[:, :2])
    with pytest.raises(InputError, match="2 columns for 3 domains"):
        read_teacher_probs(teacher, "bank", "train", DOMAINS, 8)
    np.save(label_path(teacher, "bank", "train"), np.array([{"a": 1}], dtype=object), allow_pickle=True)
    with pytest.raises(InputError, match="cannot be read"):
        read_teacher_probs(teacher, "bank", "train", DOMAINS, 8)
    (teacher / TEACHER_FILE).write_text("[]")
    with pytest.raises(InputError, match="holds no object"):
        read_teacher_probs(teacher, "bank", "train", DOMAINS, 8)
