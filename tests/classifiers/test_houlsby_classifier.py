"""The classifier of adapters on a frozen encoder: a tiny base of random weights, made here."""

import shutil
from pathlib import Path

import fairseq  # noqa: F401  before the package's registrations
import numpy as np
import pytest
import torch

from fairseq_ext.classifiers.classifier import input_files, load_classifier, make_classifier
from fairseq_ext.classifiers.options import HoulsbyTeacher
from fairseq_ext.corpora.subwords import DICT_FILE, MODEL_FILE, SentencePiece, train_sentencepiece
from fairseq_ext.corpora.text_files import read_lines, write_lines
from fairseq_ext.inputs.errors import InputError
from tests import toy_tasks

TEXTS = ["credit account", "tree garden", "account", "garden"] * 16
LABELS = np.array([0, 1, 0, 1] * 16)
OPTIONS = {"epochs": 40, "batch_size": 8, "learning_rate": 0.02, "bottleneck_dim": 16, "device": "cpu"}


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkpoint with its subwords beside it."""
    folder = tmp_path_factory.mktemp("base")
    write_lines(folder / "text", TEXTS)
    train_sentencepiece(folder, [[folder / "text"]], [], options=SentencePiece(vocab_size=18), seed=1)
    words = len(read_lines(folder / DICT_FILE))
    return toy_tasks.write_checkpoint(folder / "model.pt", toy_tasks.make_base(words=words), toy_tasks.PLAIN)


@pytest.mark.slow
def test_it_learns_on_a_base_that_stays_and_survives_saving(base: Path, tmp_path: Path) -> None:
    classifier = make_classifier(HoulsbyTeacher(model=str(base), **OPTIONS), seed=1)
    classifier.fit(TEXTS, LABELS, 2)
    probs = classifier.predict(TEXTS)
    np.testing.assert_allclose(probs.sum(axis=1), 1, atol=1e-5)
    assert probs.dtype == np.float32
    assert (probs.argmax(axis=1) == LABELS).all()
    # Rows keep their places although batches are made by length.
    one_by_one = np.concatenate([classifier.predict([text]) for text in TEXTS[:4]])
    np.testing.assert_allclose(one_by_one, probs[:4], atol=1e-5)

    classifier.save(tmp_path / "saved")
    before = torch.load(base, weights_only=True)["model"]
    after = torch.load(tmp_path / "saved" / "model.pt", weights_only=True)["model"]
    assert all(torch.equal(after[name], value) for name, value in before.items())
    restored = load_classifier(tmp_path / "saved", "houlsby")
    assert np.array_equal(restored.predict(TEXTS), probs)


def test_what_it_starts_from_is_known(base: Path) -> None:
    options = HoulsbyTeacher(model=str(base))
    assert input_files(options) == [base, base.parent / DICT_FILE, base.parent / MODEL_FILE]
    with pytest.raises(InputError):
        input_files(HoulsbyTeacher(model="elsewhere/model.pt"))
    elsewhere = HoulsbyTeacher(model="elsewhere/model.pt", subwords=str(base.parent))
    assert input_files(elsewhere)[1:] == input_files(options)[1:]


@pytest.mark.parametrize("settings", ["[1]", '{"batch_size": "many"}', '{"batch_size": -1}', '{"secret": 1}'])
def test_tampered_settings_end_in_one_line(base: Path, tmp_path: Path, settings: str) -> None:
    folder = shutil.copytree(base.parent, tmp_path / "teacher")
    (folder / "classifier.json").write_text(settings)
    with pytest.raises(InputError, match=r"classifier\.json: "):
        load_classifier(folder, "houlsby")


def test_a_tampered_model_ends_in_one_line(base: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(base.parent, tmp_path / "teacher")
    (folder / "classifier.json").write_text("{}")
    state = torch.load(base, weights_only=True)
    state["model"]["encoder.sentence_encoder.layers.0.fc1.weight"][0] = float("nan")
    torch.save(state, folder / "model.pt")
    with pytest.raises(InputError, match=r"model\.pt: "):
        load_classifier(folder, "houlsby").predict(["credit"])
