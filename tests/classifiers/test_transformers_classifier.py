"""The fine-tuned classifier, on a tiny encoder made here: no download, no pre-trained weights."""

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fairseq_ext.base.errors import InputError
from fairseq_ext.classifiers.classifier import TransformersTeacher, load_classifier, train_classifier
from tests.convert.tiny_roberta import make_bert

# Transformers is slow to import.
pytestmark = pytest.mark.slow

TEXTS = ["e a", "o n", "a", "n o n"] * 16
LABELS = np.array([0, 1, 0, 1] * 16)


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("encoder")
    make_bert(folder)
    from transformers import AutoTokenizer

    AutoTokenizer.from_pretrained(folder).save_pretrained(folder)
    return folder


def test_it_learns_and_survives_saving(encoder: Path, tmp_path: Path) -> None:
    """In bfloat16, beside weights that are not rounded."""
    options = TransformersTeacher(
        model=str(encoder), epochs=12, batch_size=8, learning_rate=5e-3, max_length=8, device="cpu",
        precision="bfloat16",
    )  # fmt: skip
    train_classifier(tmp_path, options, TEXTS, LABELS, seed=1)
    classifier = load_classifier(tmp_path, "transformers")
    probs = classifier.predict(TEXTS)
    np.testing.assert_allclose(probs.sum(axis=1), 1, atol=1e-5)
    assert (probs.argmax(axis=1) == LABELS).all()
    # Rows keep their places although batches are made by length.
    one_by_one = np.concatenate([classifier.predict([text]) for text in TEXTS[:4]])
    np.testing.assert_allclose(one_by_one, probs[:4], atol=0.02)
    settings = json.loads((tmp_path / "classifier.json").read_text())
    assert settings["precision"] == "bfloat16"
    (tmp_path / "classifier.json").write_text(json.dumps({**settings, "precision": "float32"}))
    exact = load_classifier(tmp_path, "transformers").predict(TEXTS)
    np.testing.assert_allclose(probs, exact, atol=0.02)
    assert not np.array_equal(probs, exact)


@pytest.mark.parametrize(
    ("file", "values"),
    [
        ("config.json", {"vocab_size": 2 * 10**9}),
        ("config.json", {"attn_implementation": "evil/kernels"}),
        ("config.json", {"auto_map": {"AutoModelForSequenceClassification": "evil.Model"}, "model_type": "evil"}),
        ("tokenizer.json", {"model": None}),
        ("classifier.json", {"secret": 1}),
    ],
)
def test_tampered_classifiers_end_in_one_line(
    encoder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, file: str, values: dict[str, Any]
) -> None:
    folder = shutil.copytree(encoder, tmp_path / "teacher")
    (folder / "classifier.json").write_text('{"batch_size": 8, "max_length": 8}')
    (folder / "evil.py").write_text(f"import os\nos.mkdir({str(tmp_path / 'PWN')!r})\n")
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    (folder / file).write_text(json.dumps(json.loads((folder / file).read_text()) | values))
    with pytest.raises(InputError, match=str(folder)) as caught:
        load_classifier(folder, "transformers")
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "PWN").exists()
