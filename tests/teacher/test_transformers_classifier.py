"""The fine-tuned classifier, on a tiny encoder made here: no download, no pre-trained weights."""

from pathlib import Path

import numpy as np
import pytest

from fairseq_ext.errors import InputError
from fairseq_ext.experiment.config import TransformersTeacher
from fairseq_ext.teacher.classifier import Classifier, load_classifier, make_classifier

TEXTS = ["credit account", "tree garden", "account", "garden"] * 16
LABELS = np.array([0, 1, 0, 1] * 16)


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    import torch

    from fairseq_ext.teacher.torchaudio_guard import hide_broken_torchaudio

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


def fine_tune(encoder: Path) -> Classifier:
    options = TransformersTeacher(
        model=str(encoder), epochs=12, batch_size=8, learning_rate=5e-3, max_length=8, device="cpu"
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
def test_unusable_models_and_devices_are_named(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}")
    options = TransformersTeacher(model=str(tmp_path), device="cpu")
    with pytest.raises(InputError, match=r"teacher\.model: .* cannot be loaded .*give a folder with config\.json"):
        make_classifier(options, 1).fit(TEXTS, LABELS, 2)
    with pytest.raises(InputError, match="unknown; choose one of auto, cpu, cuda"):
        make_classifier(TransformersTeacher(model="x", device="tpu"), 1)
    with pytest.raises(InputError, match="holds no usable classifier"):
        load_classifier(tmp_path, "transformers")
