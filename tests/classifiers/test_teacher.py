"""Teacher training: out-of-fold labels, rows in place, resuming, the command lines."""

import dataclasses
import json
import shutil
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from fairseq_ext.classifiers import labelling
from fairseq_ext.classifiers.labelling import Labelling, TextFiles, assign_folds, train_and_label
from fairseq_ext.classifiers.options import TfidfTeacher
from fairseq_ext.classifiers.teacher import summarise
from fairseq_ext.data.teacher_labels import load_probs, read_teacher_probs
from fairseq_ext.engine.hashing import hash_path
from fairseq_ext.engine.tasks import Engine
from fairseq_ext.inputs.errors import InputError
from fairseq_ext.recipes.translation.config import load_config
from fairseq_ext.recipes.translation.data import teacher_steps
from tests.small_corpus import NOUNS, write_config, write_corpora
from tests.verbs import verb

DOMAINS = sorted(NOUNS)


class Memory:
    """Knows by heart the text it saw, in any case, and nothing else."""

    fits = 0

    def fit(self, texts: Sequence[str], labels: np.ndarray, num_domains: int) -> None:
        type(self).fits += 1
        self.num_domains = num_domains
        self.known = {text.casefold(): label for text, label in zip(texts, labels, strict=True)}

    def predict(self, texts: Sequence[str]) -> np.ndarray:
        rows = [
            np.eye(self.num_domains)[self.known[text.casefold()]]
            if text.casefold() in self.known
            else np.full(self.num_domains, 1 / self.num_domains)
            for text in texts
        ]
        return np.array(rows, dtype=np.float32)

    def save(self, folder: Path) -> None:
        folder.mkdir()
        known = {text: int(label) for text, label in self.known.items()}
        (folder / "known.json").write_text(json.dumps([self.num_domains, known]))

    @classmethod
    def load(cls, folder: Path) -> "Memory":
        classifier = cls()
        classifier.num_domains, classifier.known = json.loads((folder / "known.json").read_text())
        return classifier


@pytest.fixture
def memory(monkeypatch: pytest.MonkeyPatch) -> type[Memory]:
    Memory.fits = 0
    monkeypatch.setattr(labelling, "make_classifier", lambda options, seed: Memory())
    monkeypatch.setattr(labelling, "load_classifier", lambda folder, backend: Memory.load(folder))
    return Memory


def write_splits(folder: Path, train_texts: dict[str, list[str]]) -> Path:
    for domain, texts in train_texts.items():
        (folder / domain).mkdir(parents=True)
        for split, lines in (("train", texts), ("valid", texts[:1]), ("test", texts[:2])):
            (folder / domain / f"{split}.en").write_text("".join(f"{line}\n" for line in lines))
    (folder / "domains.txt").write_text("".join(f"{domain}\n" for domain in train_texts))
    return folder


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder of an experiment whose teacher is trained."""
    folder = tmp_path_factory.mktemp("teacher")
    verb("teacher")([str(write_config(folder / "c.yaml", write_corpora(folder / "corpora")))])
    return folder


def test_no_sentence_is_labelled_by_a_model_that_saw_it(memory: type[Memory], tmp_path: Path) -> None:
    # Every sentence also has a copy in capitals with the same label, which would give it away.
    forms = [form for word in map(chr, range(97, 123)) for form in (f"{word} text", f"{word} TEXT")]
    splits = write_splits(tmp_path / "splits", {"bank": forms[:26], "garden": forms[26:]})
    sentences = train_and_label(tmp_path / "teacher", splits, "en", TfidfTeacher(folds=4), 1, Engine(1))
    assert sentences == {"all": 52, "trained_on": 52}
    assert memory.fits == 5
    for number, domain in enumerate(DOMAINS):
        assert (load_probs(tmp_path / "teacher" / domain / "train.npy", 2) == 0.5).all()
        held_out = load_probs(tmp_path / "teacher" / domain / "test.npy", 2)  # by the model that saw all
        assert held_out.argmax(axis=1).tolist() == [number] * 2


def test_of_many_sentences_the_same_share_of_each_domain_is_trained_on(tmp_path: Path) -> None:
    files = {
        "bank": [f"{chr(97 + n % 26)} {n}" for n in range(600)],
        "garden": [f"tree {chr(97 + n)}" for n in range(26)],
    }
    splits = write_splits(tmp_path / "splits", files)
    text = TextFiles(tuple(splits / name / "train.en" for name in DOMAINS), (600, 26))
    (tmp_path / "folds").mkdir()
    folds = assign_folds([line for lines in files.values() for line in lines], 3, seed=1)
    np.save(tmp_path / "folds" / "folds.npy", folds)
    work = Labelling(tmp_path / "folds", {"train": text}, TfidfTeacher(folds=3, max_sentences=100), seed=1)
    for model in range(4):
        rows = work.training_rows(model)
        assert (np.diff(rows) > 0).all()
        assert (folds[rows] != model).all()
        assert 95 <= len(rows) <= 101
        seen = np.bincount(text.domain_of(np.flatnonzero(folds != model)))
        assert abs(np.bincount(text.domain_of(rows))[1] - 100 * seen[1] / seen.sum()) < 1
    assert not np.array_equal(work.training_rows(3), dataclasses.replace(work, seed=2).training_rows(3))
    whole = dataclasses.replace(work, options=TfidfTeacher(folds=3, max_sentences=626))
    assert whole.training_rows(3).tolist() == list(range(626))
    rows = np.array([0, 3, 599, 600, 625])
    assert text.read(rows) == [*(files["bank"][row] for row in (0, 3, 599)), "tree a", "tree z"]


def test_labels_lie_in_the_order_of_the_text(prepared: Path) -> None:
    work = prepared / "work"
    hits = []
    for number, domain in enumerate(DOMAINS):
        for split in ("train", "valid", "test"):
            count = len((work / "splits" / domain / f"{split}.en").read_text().splitlines())
            probs = read_teacher_probs(work / "teacher", domain, split, DOMAINS, count)
            hits.append((probs.best() == number).mean())
    # The nouns tell the domains apart, and every noun is in every fold.
    assert min(hits) > 0.95
    verb("label")(
        ["--teacher", str(work / "teacher"), "--input", str(work / "splits" / "bank" / "test.en")]
        + ["--output", str(prepared / "again.npy")]
    )
    assert (prepared / "again.npy").read_bytes() == (work / "teacher" / "bank" / "test.npy").read_bytes()
    assert not list(prepared.glob(".again*.step"))
    record = json.loads((work / "teacher/teacher.json").read_text())
    assert np.sum(record["metrics"]["train"]["confusion"]) == 160
    assert record["sentences"] == {"all": 160, "trained_on": 160}
    assert not (work / "teacher/.tasks").exists()


def test_labelling_goes_on_where_it_was_killed(
    prepared: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    text = prepared / "work/splits/bank/train.en"
    whole, killed = tmp_path / "whole.npy", tmp_path / "killed.npy"
    labelling.label_file(prepared / "work/teacher", text, whole, block_sentences=30)
    honest, calls = labelling.write_block, []

    def interrupted(output: Path, *rest: object) -> None:
        calls.append(output)
        if len(calls) == 2:
            raise KeyboardInterrupt
        honest(output, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(labelling, "write_block", interrupted)
    with pytest.raises(KeyboardInterrupt):
        labelling.label_file(prepared / "work/teacher", text, killed, block_sentences=30)
    assert not killed.exists()
    labelling.label_file(prepared / "work/teacher", text, killed, block_sentences=30)
    assert len(calls) == 4  # 80 lines in three blocks; the second was begun twice
    assert killed.read_bytes() == whole.read_bytes()


def test_checksums_are_checked_by_a_command(prepared: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    verb("label")(["--teacher", str(prepared / "work/teacher"), "--check"])
    assert "6 label files are as they were written" in capsys.readouterr().err
    damaged = Path(shutil.copytree(prepared / "work/teacher", tmp_path / "teacher"))
    file = damaged / "garden" / "valid.npy"
    file.write_bytes(file.read_bytes()[:-1] + b"x")
    with pytest.raises(InputError, match=r"garden/valid\.npy: "):
        verb("label")(["--teacher", str(damaged), "--check"])
    assert hash_path(file) != hash_path(prepared / "work/teacher/garden/valid.npy")


def test_teachers_of_earlier_versions_stay(tmp_path: Path) -> None:
    config = load_config(write_config(tmp_path / "c.yaml", write_corpora(tmp_path / "corpora")))
    before = {"folds", "backend", "word_ngrams", "char_ngrams", "min_count", "inverse_regularisation", "lang", "seed"}
    assert set(teacher_steps(config)[-1].options) == before
    capped = config.model_copy(update={"teacher": config.teacher.model_copy(update={"max_sentences": 9})})
    assert set(teacher_steps(capped)[-1].options) == {*before, "max_sentences"}


def test_summary_by_hand() -> None:
    summary = summarise(np.array([[3, 1, 0], [1, 1, 0], [0, 1, 0]]), ["a", "b", "c"])
    assert summary["micro_f1"] == round(4 / 7, 4)
    assert summary["per_domain"]["a"] == {"sentences": 4, "precision": 0.75, "recall": 0.75, "f1": 0.75}
    assert summary["per_domain"]["b"] == {"sentences": 2, "precision": 0.3333, "recall": 0.5, "f1": 0.4}
    # Never predicted: 0 / 0 counts as 0.
    assert summary["per_domain"]["c"] == {"sentences": 1, "precision": 0.0, "recall": 0.0, "f1": 0.0}
