"""The fine-tuned classifier, on a tiny encoder made here: no download, no pre-trained weights."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from fairseq_ext.classifiers.classifier import Classifier, load_classifier, make_classifier
from fairseq_ext.classifiers.options import TransformersTeacher
from fairseq_ext.inputs.errors import InputError

TEXTS = ["credit account", "tree garden", "account", "garden"] * 16
LABELS = np.array([0, 1, 0, 1] * 16)


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> Path:

    from fairseq_ext.convert.pretrained import hide_broken_torchaudio

    hide_broken_torchaudio()
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import BertConfig, BertForSequenceClassification, PreTrainedTokenizerFast

    folder = tmp_path_factory.mktemp("encoder")
    words = ["[PAD]", "[UNK]", "credit", "account", "tree", "garden"]
    tokenizer = Tokenizer(models.WordLevel({word: number for number, word in enumerate(words)}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, pad_token="[PAD]", unk_token="[UNK]").save_pretrained(folder)
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=len(words),
        hidden_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=32,
        max_position_embeddings=16,
    )
    BertForSequenceClassification(config).save_pretrained(folder)
    return folder


def fine_tune(encoder: Path, precision: str = "float32") -> Classifier:
    options = TransformersTeacher(
        model=str(encoder), epochs=12, batch_size=8, learning_rate=5e-3, max_length=8, device="cpu", precision=precision
    )
    classifier = make_classifier(options, seed=1)
    classifier.fit(TEXTS, LABELS, 2)
    return classifier


@pytest.mark.slow
def test_it_learns_repeats_and_survives_saving(encoder: Path, tmp_path: Path) -> None:
    classifier = fine_tune(encoder)
    probs = classifier.predict(TEXTS)
    np.testing.assert_allclose(probs.sum(axis=1), 1, atol=1e-5)
    assert (probs.argmax(axis=1) == LABELS).all()
    # Rows keep their places although batches are made by length.
    one_by_one = np.concatenate([classifier.predict([text]) for text in TEXTS[:4]])
    np.testing.assert_allclose(one_by_one, probs[:4], atol=1e-5)
    np.testing.assert_array_equal(fine_tune(encoder).predict(TEXTS), probs)
    classifier.save(tmp_path)
    assert (tmp_path / "model.safetensors").is_file()
    np.testing.assert_array_equal(load_classifier(tmp_path, "transformers").predict(TEXTS), probs)


@pytest.mark.slow
def test_labels_in_bfloat16_are_the_same_but_for_rounding(encoder: Path, tmp_path: Path) -> None:
    classifier = fine_tune(encoder, "bfloat16")
    probs = classifier.predict(TEXTS)
    classifier.save(tmp_path)
    settings = json.loads((tmp_path / "classifier.json").read_text())
    assert settings["precision"] == "bfloat16"
    np.testing.assert_array_equal(load_classifier(tmp_path, "transformers").predict(TEXTS), probs)
    # What is saved is not rounded.
    found = []
    for kept in ({**settings, "precision": "float32"}, {k: v for k, v in settings.items() if k != "precision"}):
        (tmp_path / "classifier.json").write_text(json.dumps(kept))
        found.append(load_classifier(tmp_path, "transformers").predict(TEXTS))
    np.testing.assert_array_equal(*found)
    np.testing.assert_allclose(probs, found[0], atol=0.02)
    assert not np.array_equal(probs, found[0])


def spoil_config(**values: Any) -> Callable[[Path], None]:
    def spoil(folder: Path) -> None:
        path = folder / "config.json"
        path.write_text(json.dumps(json.loads(path.read_text()) | values))

    return spoil


def spoil_weights(folder: Path) -> None:
    from safetensors.torch import load_file, save_file

    weights = load_file(folder / "model.safetensors")
    weights["classifier.bias"][0] = float("nan")
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})


def write(name: str, text: str) -> Callable[[Path], None]:
    return lambda folder: (folder / name).write_text(text) and None


@pytest.mark.parametrize(
    "spoil",
    [
        spoil_config(vocab_size=2 * 10**9),
        spoil_config(attn_implementation="evil/kernels"),
        spoil_config(auto_map={"AutoModelForSequenceClassification": "evil.Model"}, model_type="evil"),
        spoil_weights,
        write("tokenizer.json", '{"version": "1.0"}'),
        write("classifier.json", '{"device": "cpu", "secret": 1}'),
    ],
)
def test_tampered_ones_end_in_one_line(
    encoder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spoil: Callable[[Path], None]
) -> None:
    folder = shutil.copytree(encoder, tmp_path / "teacher")
    (folder / "classifier.json").write_text('{"batch_size": 8, "max_length": 8}')
    (folder / "evil.py").write_text(f"import os\nos.mkdir({str(tmp_path / 'PWN')!r})\n")
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    assert load_classifier(folder, "transformers").predict(TEXTS[:2]).shape == (2, 2)
    spoil(folder)
    with pytest.raises(InputError, match=str(folder)) as caught:
        load_classifier(folder, "transformers")
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "PWN").exists()
