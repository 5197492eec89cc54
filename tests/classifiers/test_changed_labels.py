"""Labels made wrong, or taken away: which rows change and how, and which do not."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from fairseq_ext.classifiers.teacher import summarise, with_noise, write_changed_labels
from fairseq_ext.corpora.split import SPLITS
from fairseq_ext.data.teacher_labels import (
    TeacherLabels,
    as_labels,
    check_labels,
    label_path,
    read_teacher_probs,
    write_probs,
    write_teacher_record,
)

DOMAINS = ["it", "law", "med"]
SIZES = {"train": 40, "valid": 5, "test": 6}


def write_teacher(folder: Path) -> Path:
    """A classifier that is always right and never sure."""
    for number, name in enumerate(DOMAINS):
        for split, size in SIZES.items():
            write_probs(label_path(folder, name, split), np.eye(3)[[number] * size] * 0.7 + 0.1)
    metrics = {split: summarise(np.diag([size] * 3), DOMAINS) for split, size in SIZES.items()}
    write_teacher_record(folder, DOMAINS, "tfidf", metrics)
    return folder


@pytest.mark.parametrize("share", [0.0, 0.1, 1.0])
def test_just_the_share_of_rows_has_another_domain_on_top(share: float) -> None:
    probs = np.random.default_rng(0).dirichlet([0.3] * 5, size=1000)
    labels = TeacherLabels(Path("train.npy"), as_labels(probs))
    changed = with_noise(labels, share, np.random.default_rng(3))
    is_other = (changed != labels.raw).any(1)
    assert is_other.sum() == 1000 * share
    assert (changed.argmax(1) == labels.best()).sum() == 1000 * (1 - share)
    np.testing.assert_array_equal(np.sort(changed, axis=1), np.sort(labels.raw, axis=1))  # as sure as before
    assert ((changed != labels.raw).sum(1)[is_other] == 2).all()


def test_training_labels_change_and_the_others_stay(tmp_path: Path) -> None:
    teacher = write_teacher(tmp_path / "teacher")
    said = write_changed_labels(tmp_path / "out", teacher, noise=0.5, unlabelled=["law"], seed=1)
    assert said == "80 training sentences are labelled, F1 0.500"
    assert check_labels(tmp_path / "out") == 9
    read = {name: read_teacher_probs(tmp_path / "out", name, "train", DOMAINS, 40)[:] for name in DOMAINS}
    assert not read["law"].any()
    assert [(read[name].argmax(1) == row).sum() for row, name in ((0, "it"), (2, "med"))] == [20, 20]
    for name in DOMAINS:
        for split in SPLITS[1:]:
            same = [label_path(folder, name, split).read_bytes() for folder in (teacher, tmp_path / "out")]
            assert same[0] == same[1]
    record = json.loads((tmp_path / "out/teacher.json").read_text())
    assert record["metrics"]["train"]["confusion"][1] == [0, 0, 0]
    assert record["metrics"]["valid"]["confusion"] == np.diag([5] * 3).tolist()
    assert (record["noise"], record["unlabelled"]) == (0.5, ["law"])
