"""The fine-tuned classifier, on a tiny encoder made here: no download, no pre-trained weights."""

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from fairseq_ext.base.errors import InputError
from fairseq_ext.classifiers.classifier import TransformersTeacher, load_classifier, train_classifier
from tests.convert.tiny_roberta import make_bert, make_bpe, make_wordpieces

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
    assert len({path.stat().st_mode for path in tmp_path.iterdir()}) == 1  # safetensors are private by themselves
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


SMALL = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
BART = {"d_model": 16, "encoder_layers": 1, "decoder_layers": 1, "encoder_ffn_dim": 16, "decoder_ffn_dim": 16}


def save_base(folder: Path, kind: str, tokenizer: str, **config: Any) -> str:
    """Write a random model without a head, and the tokenizer of a class, of which GPT-2's has no padding."""
    import transformers

    (make_wordpieces if tokenizer == "BertTokenizer" else make_bpe)(folder)
    own = getattr(transformers, tokenizer).from_pretrained(folder)
    if kind == "gpt2":
        own.pad_token = None
    own.save_pretrained(folder)
    pad = {"gpt2": None, "bart": 1}.get(kind, 0)
    transformers.set_seed(1)
    settings = transformers.AutoConfig.for_model(kind, vocab_size=len(own), pad_token_id=pad, **config)
    transformers.AutoModel.from_config(settings).bfloat16().save_pretrained(folder)
    return str(folder)


@pytest.mark.parametrize(
    ("kind", "tokenizer", "config"),
    [
        ("gpt2", "GPT2Tokenizer", {"n_embd": 16, "n_layer": 1, "n_head": 2}),
        ("bart", "RobertaTokenizer", BART),  # needs the names of labels
        ("distilbert", "BertTokenizer", {"dim": 16, "n_layers": 1, "n_heads": 2, "hidden_dim": 16}),  # has no types
    ],
)
def test_bases_of_other_kinds_learn(tmp_path: Path, kind: str, tokenizer: str, config: dict[str, Any]) -> None:
    """Also without a token for padding, or with weights in half precision, whose small updates would vanish."""
    model = save_base(tmp_path / "base", kind, tokenizer, **config)
    options = TransformersTeacher(
        model=model, epochs=8, batch_size=8, learning_rate=5e-3, max_length=8, device="cpu", precision="float32"
    )
    (tmp_path / "out").mkdir()
    train_classifier(tmp_path / "out", options, TEXTS, LABELS, seed=1)
    classifier = load_classifier(tmp_path / "out", "transformers")
    texts = [*TEXTS[:4], "", "e a " * 99]
    probs = classifier.predict(texts)
    assert (probs[:4].argmax(axis=1) == LABELS[:4]).all()
    np.testing.assert_allclose(np.concatenate([classifier.predict([text]) for text in texts]), probs, atol=1e-5)
    assert {weight.dtype for weight in load_file(tmp_path / "out/model.safetensors").values()} == {torch.float32}


@pytest.mark.parametrize(
    ("kind", "config", "max_length", "message"),
    [
        ("fnet", SMALL, 8, "depend on the length of other texts"),  # it reads padding as text
        ("bert", SMALL | {"max_position_embeddings": 16}, 17, "cannot classify texts of 17 tokens"),
    ],
)
def test_unsuitable_bases_are_refused_before_training(
    tmp_path: Path, kind: str, config: dict[str, Any], max_length: int, message: str
) -> None:
    model = save_base(tmp_path / "base", kind, "BertTokenizer", **config)
    options = TransformersTeacher(model=model, max_length=max_length, device="cpu", precision="float32")
    with pytest.raises(InputError, match=message) as caught:
        train_classifier(tmp_path, options, TEXTS, LABELS, seed=1)
    assert "\n" not in str(caught.value)


def test_a_classifier_of_other_labels_is_refused(encoder: Path, tmp_path: Path) -> None:
    from transformers import AutoModelForSequenceClassification

    folder = shutil.copytree(encoder, tmp_path / "three")
    AutoModelForSequenceClassification.from_pretrained(encoder, num_labels=3).save_pretrained(folder)
    options = TransformersTeacher(model=str(folder), max_length=8, device="cpu", precision="float32")
    with pytest.raises(InputError, match=r"'classifier\.bias' has the shape \(3,\), expected \(2,\)"):
        train_classifier(tmp_path, options, TEXTS, LABELS, seed=1)


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
