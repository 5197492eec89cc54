"""Label files: what is not a distribution over the right domains does not get into training."""

import itertools
from pathlib import Path

import numpy as np
import pytest

from fairseq_ext.base.errors import InputError
from fairseq_ext.data.teacher_labels import (
    TeacherLabels,
    as_labels,
    check_labels,
    read_teacher_probs,
    write_probs,
    write_teacher_record,
)

DOMAINS = ["bank", "garden", "law"]
FILE = "bank/train.npy"


@pytest.fixture
def probs() -> np.ndarray:
    return np.random.default_rng(0).dirichlet([1.0] * 3, size=8).astype(np.float32)


@pytest.fixture
def teacher(tmp_path: Path, probs: np.ndarray) -> Path:
    write_probs(tmp_path / FILE, probs)
    write_teacher_record(tmp_path, DOMAINS, "tfidf", {})
    return tmp_path


def labels_in(teacher: Path, split: str = "train", domains: list[str] = DOMAINS, num_rows: int = 8) -> TeacherLabels:
    return read_teacher_probs(teacher, "bank", split, domains, num_rows)


def test_what_is_written_is_read(teacher: Path, probs: np.ndarray) -> None:
    labels = labels_in(teacher)
    assert isinstance(labels.raw, np.memmap)
    assert (labels.raw.dtype, labels[:].dtype) == (np.float16, np.float32)
    np.testing.assert_allclose(labels[:], probs, rtol=1e-3)
    np.testing.assert_allclose(labels[:].sum(axis=1), 1, atol=1e-6)
    for rows in (3, np.array([5, 0, 5])):
        np.testing.assert_array_equal(labels[rows], labels[:][rows])
    np.testing.assert_array_equal(labels.best(), probs.argmax(axis=1))


def test_only_zero_becomes_zero() -> None:
    row = np.array([[1 - 1e-9, 1e-9, 1e-30, 0.0]], dtype=np.float32)
    stored = as_labels(row)
    assert np.isfinite(np.log(stored[0, :3].astype(np.float32))).all()  # --gate-target log-probs
    assert stored[0, 3] == 0
    assert stored[0, 0] == 1


def test_a_recorded_file_is_not_read_at_the_start(teacher: Path, probs: np.ndarray) -> None:
    bad = as_labels(probs)
    bad[6, 0] = np.nan
    np.save(teacher / FILE, bad)
    labels, other = labels_in(teacher), TeacherLabels(Path("other.npy"), as_labels(probs[::-1]))
    read = TeacherLabels.read_each([(labels, 5), (other, 7), (labels, 0), (other, 0)])
    np.testing.assert_allclose(read, probs[[5, 0, 0, 7]], rtol=1e-3)
    with pytest.raises(InputError, match=r"bank/train\.npy, row 7: \[ *nan"):
        TeacherLabels.read_each([(other, 6), (labels, 5), (labels, 6)])
    with pytest.raises(InputError, match=r"bank/train\.npy: .* teacher\.json"):
        check_labels(teacher)


def test_files_of_another_size_are_noticed(teacher: Path) -> None:
    assert check_labels(teacher) == 1
    whole = (teacher / FILE).read_bytes()
    for changed, read in itertools.product((whole + b"\0", whole[:-1]), (labels_in, check_labels)):
        (teacher / FILE).write_bytes(changed)
        with pytest.raises(InputError, match=r"train\.npy"):
            read(teacher)


@pytest.mark.parametrize(("domains", "num_rows"), [(DOMAINS, 9), (["bank", "law", "garden"], 8), (DOMAINS[:2], 8)])
def test_rows_and_domains_must_fit(teacher: Path, domains: list[str], num_rows: int) -> None:
    with pytest.raises(InputError, match=r"bank/train\.npy: |teacher\.json: "):
        labels_in(teacher, domains=domains, num_rows=num_rows)


@pytest.mark.parametrize("row", [[0.5, 0.6, -0.1], [np.nan, 0.5, 0.5], [0.5, 0.5, 0.1], [0, 0, 0]])
def test_first_bad_row_is_named(teacher: Path, probs: np.ndarray, row: list[float]) -> None:
    probs[[4, 6]] = row
    write_probs(teacher / FILE, probs)
    with pytest.raises(InputError, match=r"train\.npy, row 5: \["):
        labels_in(teacher).best()


def test_zeros_are_no_label_in_training_text_that_is_said_to_lack_some(teacher: Path, probs: np.ndarray) -> None:
    expected = labels_in(teacher)[:]
    probs[[4, 6]] = expected[[4, 6]] = 0
    for split in ("train", "valid"):
        write_probs(teacher / f"bank/{split}.npy", probs)
    write_teacher_record(teacher, DOMAINS, "tfidf", {}, unlabelled=["bank"])
    np.testing.assert_array_equal(labels_in(teacher)[:], expected)
    with pytest.raises(InputError, match=r"valid\.npy, row 5: "):
        labels_in(teacher, "valid")[:]


def test_a_class_that_is_as_probable_as_asked_is_certain() -> None:
    labels = TeacherLabels(Path(), np.array([[0.5, 0.5], [0.25, 0.75]], np.float32))
    assert [labels.best(least).tolist() for least in (0.5, 0.6, 0.8)] == [[0, 1], [-1, 1], [-1, -1]]
