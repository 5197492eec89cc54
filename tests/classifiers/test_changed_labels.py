"""Labels made wrong, or taken away: which rows change and how, which do not, and which steps make them."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from fairseq_ext.classifiers.changed_labels import with_noise, write_changed_labels
from fairseq_ext.classifiers.teacher import summarise
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
from fairseq_ext.recipes.translation.config import Translation, load_config
from fairseq_ext.recipes.translation.stages import training_steps

DOMAINS = ["it", "law", "med"]
SIZES = {"train": 40, "valid": 5, "test": 6}
CONFIG = """
work_dir: {root}
source_lang: en
target_lang: pl
corpora: {{domains: {{it: [it.tsv], law: [law.tsv], med: [med.tsv]}}}}
train:
  systems:
    mix: {{arch: transformer_tiny}}
    gad: {{from: mix, uses_teacher: true, label_noise: 0.3, arch: transformer_gated_adapter_tiny, seeds: [1, 2]}}
    few: {{from: mix, uses_teacher: true, unlabelled: [med, it], arch: transformer_gated_adapter_tiny}}
    all: {{from: mix, uses_teacher: true, label_noise: 0, arch: transformer_gated_adapter_tiny}}
"""


@pytest.fixture
def labels(tmp_path: Path) -> TeacherLabels:
    probs = np.random.default_rng(0).dirichlet([0.3] * 5, size=1000)
    return TeacherLabels(tmp_path / "train.npy", as_labels(probs))


@pytest.fixture
def teacher(tmp_path: Path) -> Path:
    """A classifier that is always right and never sure."""
    folder = tmp_path / "teacher"
    for number, name in enumerate(DOMAINS):
        for split, size in SIZES.items():
            write_probs(label_path(folder, name, split), np.eye(3)[[number] * size] * 0.7 + 0.1)
    metrics = {split: summarise(np.diag([size] * 3), DOMAINS) for split, size in SIZES.items()}
    write_teacher_record(folder, DOMAINS, "tfidf", metrics)
    return folder


def config_of(root: Path, text: str = CONFIG) -> Translation:
    path = root / "experiment.yaml"
    path.write_text(text.format(root=root))
    return load_config(path)


@pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 1.0])
def test_just_the_share_of_rows_has_another_domain_on_top(labels: TeacherLabels, share: float) -> None:
    changed = with_noise(labels, share, np.random.default_rng(3))
    is_other = (changed != labels.raw).any(1)
    assert is_other.sum() == 1000 * share
    assert (changed.argmax(1) == labels.best()).sum() == 1000 * (1 - share)
    np.testing.assert_array_equal(np.sort(changed, axis=1), np.sort(labels.raw, axis=1))  # as sure as before
    assert ((changed != labels.raw).sum(1)[is_other] == 2).all()


def test_training_labels_change_and_the_others_stay(tmp_path: Path, teacher: Path) -> None:
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


def test_a_system_is_trained_on_its_labels_and_all_its_seeds_on_the_same(tmp_path: Path) -> None:
    config = config_of(tmp_path)
    steps = training_steps(config, "gad")
    names = [step.output.relative_to(tmp_path).as_posix() for step in steps]
    assert names == ["systems/mix", "labels/labels-gad", "systems/gad@1", "systems/gad@2"]
    arguments = steps[-1].commands[0].arguments
    assert arguments[arguments.index("--teacher-dir") + 1] == str(tmp_path / "labels/labels-gad")
    assert tmp_path / "labels/labels-gad" in steps[-1].inputs
    assert not {"--label-noise", "--label_noise"} & set(arguments)
    [*_, last] = training_steps(config, "all")
    assert tmp_path / "teacher" in last.inputs  # nothing to change
