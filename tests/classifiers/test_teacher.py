"""Teacher training: out-of-fold labels, rows in place, the command lines; and labels made wrong or taken away."""

import dataclasses
import json
from collections.abc import Sequence
from itertools import product
from pathlib import Path

import numpy as np
import pytest

from fairseq_ext.base.jobs import Engine
from fairseq_ext.classifiers import teacher as teacher_module
from fairseq_ext.classifiers.classifier import TfidfTeacher
from fairseq_ext.classifiers.teacher import (
    Labelling,
    TextFiles,
    assign_folds,
    label_file,
    summarise,
    train_and_label,
    train_teacher,
    with_noise,
    write_changed_labels,
)
from fairseq_ext.data.teacher_labels import (
    TeacherLabels,
    as_labels,
    check_labels,
    classes_of,
    label_path,
    open_labels,
    read_teacher_probs,
    read_teacher_record,
    write_probs,
    write_teacher_record,
)
from fairseq_ext.experiments.metrics.records import Records
from fairseq_ext.experiments.translation.config import load_config
from fairseq_ext.experiments.translation.extra_sets import with_guessed_domains
from fairseq_ext.experiments.translation.measure import teacher_records
from fairseq_ext.text.split import SPLITS
from fairseq_ext.text.text_files import write_lines
from tests.small_corpus import NOUNS, write_config, write_corpora
from tests.verbs import verb

DOMAINS = sorted(NOUNS)
LETTERS = "abcdefghijklmnopqrst"


class Memory:
    """Knows by heart the text it saw, in any case, and nothing else."""

    def __init__(self, folder: Path) -> None:
        self.num_domains, self.known = json.loads((folder / "known.json").read_text())

    def predict(self, texts: Sequence[str]) -> np.ndarray:
        uniform = np.full(self.num_domains, 1 / self.num_domains)
        labels = (self.known.get(text.casefold()) for text in texts)
        return np.array([uniform if label is None else np.eye(self.num_domains)[label] for label in labels])


def memorise(folder: Path, options: object, texts: Sequence[str], labels: np.ndarray, seed: int) -> None:
    folder.mkdir()
    known = {text.casefold(): label for text, label in zip(texts, labels.tolist(), strict=True)}
    (folder / "known.json").write_text(json.dumps([int(labels.max()) + 1, known]))


def write_splits(folder: Path, train_texts: dict[str, list[str]]) -> Path:
    for domain, texts in train_texts.items():
        (folder / domain).mkdir(parents=True)
        for split, lines in (("train", texts), ("valid", texts[:1]), ("test", texts[:2])):
            (folder / domain / f"{split}.en").write_text("".join(f"{line}\n" for line in lines))
    (folder / "domains.txt").write_text("".join(f"{domain}\n" for domain in train_texts))
    return folder


def test_no_sentence_is_labelled_by_a_model_that_saw_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(teacher_module, "train_classifier", memorise)
    monkeypatch.setattr(teacher_module, "load_classifier", lambda folder, backend: Memory(folder))
    monkeypatch.setattr(teacher_module, "_BLOCK_SENTENCES", 5)
    # Every sentence also has a copy in capitals with the same label, which would give it away.
    forms = [form for word in map(chr, range(97, 123)) for form in (f"{word} text", f"{word} TEXT")]
    splits = write_splits(tmp_path / "splits", {"bank": forms[:26], "garden": forms[26:]})
    sentences = train_and_label(tmp_path / "teacher", splits, "en", TfidfTeacher(folds=4), 1, Engine(1))
    assert sentences == {"all": 52, "trained_on": 52}
    for number, domain in enumerate(DOMAINS):
        assert (open_labels(tmp_path / "teacher" / domain / "train.npy", 2)[:] == 0.5).all()
        held_out = open_labels(tmp_path / "teacher" / domain / "test.npy", 2)[:]  # by the model that saw all
        assert held_out.argmax(axis=1).tolist() == [number] * 2


def test_text_of_no_domain_is_a_class_of_its_own(tmp_path: Path) -> None:
    splits = write_splits(
        tmp_path / "splits", {name: [f"{name} {letter}" for letter in LETTERS] for name in ("bank", "garden")}
    )
    write_lines(tmp_path / "teacher/base/train.en", [f"weather {letter}" for letter in LETTERS])
    options = TfidfTeacher(folds=2, base_text=("general.en",))
    said = train_teacher(tmp_path / "teacher", splits, "en", options=options, seed=1)
    assert said.startswith("F1 1.000 on train, 1.000 on valid")
    teacher = tmp_path / "teacher"
    record = read_teacher_record(teacher)
    assert classes_of(record) == ["bank", "garden", "base"]
    assert record["metrics"]["train"]["confusion"] == np.diag([20] * 3).tolist()
    assert record["metrics"]["test"]["confusion"] == [[2, 0, 0], [0, 2, 0]]
    assert check_labels(teacher) == 7
    assert set(read_teacher_probs(teacher, "bank", "train", DOMAINS, 20).best()) == {0}
    write_lines(tmp_path / "new.en", ["weather today", "garden 99"])
    label_file(teacher, tmp_path / "new.en", tmp_path / "new.npy")
    assert open_labels(tmp_path / "new.npy", 3).best().tolist() == [2, 1]
    for least, second in ((0.0, "garden"), (1.0, "base")):
        guessed = with_guessed_domains(["weather today", "garden 99"], teacher, least)
        assert guessed == ["<domain:base> weather today", f"<domain:{second}> garden 99"]
    write_changed_labels(tmp_path / "changed", teacher, noise=0.5, unlabelled=[], seed=1)
    assert classes_of(read_teacher_record(tmp_path / "changed")) == ["bank", "garden", "base"]


def test_of_many_sentences_the_same_share_of_each_domain_is_trained_on(tmp_path: Path) -> None:
    files = {"bank": [f"{chr(97 + n % 26)} {n}" for n in range(600)], "garden": [f"tree {n}" for n in range(26)]}
    splits = write_splits(tmp_path / "splits", files)
    text = TextFiles(tuple(splits / name / "train.en" for name in DOMAINS), (600, 26))
    folds = assign_folds([line for lines in files.values() for line in lines], 3, seed=1)
    np.save(tmp_path / "folds.npy", folds)
    work = Labelling(tmp_path, {"train": text}, TfidfTeacher(folds=3, max_sentences=100), seed=1)
    for model in range(4):
        rows = work.training_rows(model)
        assert (np.diff(rows) > 0).all()
        assert (folds[rows] != model).all()
        assert 95 <= len(rows) <= 101
        seen = np.array([(folds[:600] != model).sum(), (folds[600:] != model).sum()])
        assert abs((rows >= 600).sum() - 100 * seen[1] / seen.sum()) < 1
    assert not np.array_equal(work.training_rows(3), dataclasses.replace(work, seed=2).training_rows(3))
    assert text.read(np.array([3, 599, 600, 625])) == ["d 3", "b 599", "tree 0", "tree 25"]


@pytest.mark.slow
def test_labels_lie_in_the_order_of_the_text_of_domains_and_of_none(tmp_path: Path) -> None:
    general = tmp_path / "general.en"
    write_lines(general, [f"“Weather”  {letter}" for letter in LETTERS] + [""])
    config = write_config(
        tmp_path / "c.yaml",
        write_corpora(tmp_path / "corpora"),
        teacher={"folds": 4, "base_text": str(general)},
        clean={"normalise": {}},
    )
    verb("teacher")([str(config)])
    work, teacher = tmp_path / "work", tmp_path / "work/teacher"
    for number, domain in enumerate(DOMAINS):
        for split in SPLITS:
            count = len((work / "splits" / domain / f"{split}.en").read_text().splitlines())
            # The nouns tell the domains apart, and every noun is in every fold.
            assert (read_teacher_probs(teacher, domain, split, DOMAINS, count).best() == number).mean() > 0.95
    text, again = work / "splits/bank/test.en", tmp_path / "again.npy"
    verb("label")(["--teacher", str(teacher), "--input", str(text), "--output", str(again)])
    assert again.read_bytes() == (teacher / "bank/test.npy").read_bytes()
    record = json.loads((teacher / "teacher.json").read_text())
    assert np.sum(record["metrics"]["train"]["confusion"]) == 180
    assert record["sentences"] == {"all": 180, "trained_on": 180}
    assert not (teacher / ".jobs").exists()
    assert (teacher / "base/train.en").read_text().splitlines()[0] == '"Weather" a'
    assert classes_of(read_teacher_record(teacher)) == [*DOMAINS, "base"]
    records = Records(list(teacher_records(load_config(config))))
    classified = records.select("classified as", split="train", **{"class": "base"})
    assert sum(record.value for record in classified) == len(LETTERS)


def test_summary_by_hand() -> None:
    summary = summarise(np.array([[3, 1, 0], [1, 1, 0], [0, 1, 0]]), ["a", "b", "c"])
    assert summary["micro_f1"] == round(4 / 7, 4)
    assert summary["per_domain"]["a"] == {"sentences": 4, "precision": 0.75, "recall": 0.75, "f1": 0.75}
    assert summary["per_domain"]["b"] == {"sentences": 2, "precision": 0.3333, "recall": 0.5, "f1": 0.4}
    # Never predicted: 0 / 0 counts as 0.
    assert summary["per_domain"]["c"] == {"sentences": 1, "precision": 0.0, "recall": 0.0, "f1": 0.0}


TRAINED = ["it", "law", "med"]
SIZES = {"train": 40, "valid": 5, "test": 6}


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
    """Of a classifier that is always right and never sure."""
    teacher = tmp_path / "teacher"
    for number, name in enumerate(TRAINED):
        for split, size in SIZES.items():
            write_probs(label_path(teacher, name, split), np.eye(3)[[number] * size] * 0.7 + 0.1)
    metrics = {split: summarise(np.diag([size] * 3), TRAINED) for split, size in SIZES.items()}
    write_teacher_record(teacher, TRAINED, "tfidf", metrics)
    said = write_changed_labels(tmp_path / "out", teacher, noise=0.5, unlabelled=["law"], seed=1)
    assert said == "80 training sentences are labelled, F1 0.500"
    assert check_labels(tmp_path / "out") == 9
    read = {name: read_teacher_probs(tmp_path / "out", name, "train", TRAINED, 40)[:] for name in TRAINED}
    assert not read["law"].any()
    assert [(read[name].argmax(1) == row).sum() for row, name in ((0, "it"), (2, "med"))] == [20, 20]
    for name, split in product(TRAINED, SPLITS[1:]):
        same, other = (label_path(folder, name, split).read_bytes() for folder in (teacher, tmp_path / "out"))
        assert same == other
    record = json.loads((tmp_path / "out/teacher.json").read_text())
    assert record["metrics"]["train"]["confusion"][1] == [0, 0, 0]
    assert record["metrics"]["valid"]["confusion"] == np.diag([5] * 3).tolist()
    assert (record["noise"], record["unlabelled"]) == (0.5, ["law"])
