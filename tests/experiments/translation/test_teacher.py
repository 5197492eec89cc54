"""Teacher training: out-of-fold labels, rows in place, resuming, the command lines."""

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from fairseq_ext.data.teacher_labels import load_probs, read_teacher_probs
from fairseq_ext.engine.steps import run_steps
from fairseq_ext.experiments.translation import teacher as train
from fairseq_ext.experiments.translation.config import load_config
from fairseq_ext.experiments.translation.teacher import LabelledText, assign_folds, label_out_of_fold, read_labelled
from fairseq_ext.inputs.errors import InputError
from fairseq_ext.teacher import label
from fairseq_ext.teacher.options import TfidfTeacher
from tests.small_corpus import NOUNS, read_tree, write_config, write_corpora

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


@pytest.fixture
def memory(monkeypatch: pytest.MonkeyPatch) -> type[Memory]:
    Memory.fits = 0
    monkeypatch.setattr(train, "make_classifier", lambda options, seed: Memory())
    return Memory


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder of an experiment whose teacher is trained."""
    folder = tmp_path_factory.mktemp("teacher")
    train.main([str(write_config(folder / "c.yaml", write_corpora(folder / "corpora")))])
    return folder


def test_no_sentence_is_labelled_by_a_model_that_saw_it(memory: type[Memory], tmp_path: Path) -> None:
    # Every sentence also has a copy in capitals with the same label, which would give it away.
    texts = [form for word in map(chr, range(97, 123)) for form in (f"{word} text", f"{word} TEXT")]
    text = LabelledText(texts, np.arange(52) // 2 % 2)
    probs = label_out_of_fold(text, DOMAINS, TfidfTeacher(folds=4), 1, tmp_path)
    assert (probs == 0.5).all()
    assert memory.fits == 4
    seen = Memory()
    seen.fit(text.texts, text.labels, 2)
    assert (seen.predict(text.texts).argmax(axis=1) == text.labels).all()


def test_random_labels_cannot_be_predicted_out_of_fold(tmp_path: Path) -> None:
    generator = np.random.default_rng(0)
    texts = ["".join(chr(97 + letter) for letter in row) for row in generator.integers(0, 26, (400, 8))]
    text = LabelledText(texts, generator.integers(0, 2, 400))
    options = TfidfTeacher(min_count=1)
    probs = label_out_of_fold(text, DOMAINS, options, 1, tmp_path)
    # Chance is 0.5 with a standard deviation of 0.025; a model that saw them reaches 1.
    assert abs((probs.argmax(axis=1) == text.labels).mean() - 0.5) < 0.1


def test_folds_are_even_and_keep_copies_together() -> None:
    texts = [f"text {chr(97 + n % 26)}{chr(97 + n // 26)}" for n in range(600)]
    folds = assign_folds(texts, 3, seed=1)
    assert np.bincount(folds, minlength=3).min() > 150
    np.testing.assert_array_equal(folds, assign_folds([text.upper() + "  " for text in texts], 3, seed=1))
    assert (folds != assign_folds(texts, 3, seed=2)).any()


def test_labels_lie_in_the_order_of_the_text(prepared: Path) -> None:
    work = prepared / "work"
    hits = []
    for number, domain in enumerate(DOMAINS):
        for split in ("train", "valid", "test"):
            count = len((work / "splits" / domain / f"{split}.en").read_text().splitlines())
            probs = read_teacher_probs(work / "teacher", domain, split, DOMAINS, count)
            hits.append((probs.argmax(axis=1) == number).mean())
    # The nouns tell the domains apart, and every noun is in every fold.
    assert min(hits) > 0.95
    label.main(
        ["--teacher", str(work / "teacher"), "--input", str(work / "splits" / "bank" / "test.en")]
        + ["--output", str(prepared / "again.npy")]
    )
    np.testing.assert_array_equal(
        load_probs(prepared / "again.npy", 2), np.load(work / "teacher" / "bank" / "test.npy")
    )


def test_record_has_the_metrics(prepared: Path) -> None:
    record = json.loads((prepared / "work" / "teacher" / "teacher.json").read_text())
    assert record["domains"] == DOMAINS
    assert record["backend"] == "tfidf"
    assert set(record["metrics"]) == {"train", "valid", "test"}
    assert np.sum(record["metrics"]["train"]["confusion"]) == 160
    for name, split in (("confusion-train.svg", "train"), ("confusion.svg", "test")):
        count = record["metrics"][split]["confusion"][0][0]
        assert f"<title>{DOMAINS[0]}, {DOMAINS[0]}: {count}</title>" in (prepared / "work/teacher" / name).read_text()
    assert not (prepared / "work" / "teacher" / ".folds").exists()


def test_second_training_gives_the_same_bytes(prepared: Path, tmp_path: Path) -> None:
    train.main([str(write_config(tmp_path / "c.yaml", write_corpora(tmp_path / "corpora")))])
    assert read_tree(tmp_path / "work" / "teacher") == read_tree(prepared / "work" / "teacher")


def test_interrupted_training_keeps_its_folds(
    memory: type[Memory], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = load_config(write_config(tmp_path / "c.yaml", write_corpora(tmp_path / "corpora")))
    honest = train._label_fold

    def interrupted(text: LabelledText, folds: np.ndarray, fold: int, *rest: object) -> np.ndarray:
        if fold == 2:
            raise KeyboardInterrupt
        return honest(text, folds, fold, *rest)  # type: ignore[arg-type]

    with monkeypatch.context() as patch:
        patch.setattr(train, "_label_fold", interrupted)
        with pytest.raises(KeyboardInterrupt):
            run_steps(train.teacher_steps(config))
    assert memory.fits == 2
    run_steps(train.teacher_steps(config))
    # The other two folds and the model of all text.
    assert memory.fits == 5
    probs = np.load(tmp_path / "work" / "teacher" / "bank" / "train.npy")
    assert (probs == 0.5).all()


def test_too_many_folds_for_the_text(memory: type[Memory], tmp_path: Path) -> None:
    text = LabelledText(["only one"] * 5 + ["other", "third"], np.array([0] * 5 + [1, 1]))
    with pytest.raises(InputError, match=r"too few sentences for 3 folds; lower teacher\.folds"):
        label_out_of_fold(text, DOMAINS, TfidfTeacher(folds=3), 1, tmp_path)


def test_text_and_labels_are_read_by_domain(prepared: Path) -> None:
    text = read_labelled(prepared / "work" / "splits", DOMAINS, "valid", "en")
    assert text.labels.tolist() == [0] * 10 + [1] * 10
    assert all(any(noun in line for noun in NOUNS["garden"]) for line in text.texts[10:])
