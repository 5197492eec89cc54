"""The TF-IDF classifier learns, and survives being saved."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fairseq_ext.classifiers.classifier import load_classifier
from fairseq_ext.classifiers.options import TfidfTeacher
from fairseq_ext.classifiers.tfidf import TfidfClassifier
from fairseq_ext.corpora.subwords import MODEL_FILE, SentencePiece, train_sentencepiece
from fairseq_ext.inputs.errors import InputError

TOPICS = ["the account has credit", "a tree in the garden", "the court and the law"]
NEW = ["Credit Account", "trees", "court", "völlig unbekannt", ""]


def train(num_domains: int, **options: Any) -> TfidfClassifier:
    texts = [f"{TOPICS[n % num_domains]} {n}" for n in range(30)]
    classifier = TfidfClassifier(TfidfTeacher(**options))
    classifier.fit(texts, np.arange(30) % num_domains, num_domains)
    return classifier


@pytest.mark.parametrize("num_domains", [2, 3])
def test_it_learns_and_survives_saving(tmp_path: Path, num_domains: int) -> None:
    classifier = train(num_domains)
    probs = classifier.predict(NEW)
    assert probs.dtype == np.float32
    assert probs.shape == (5, num_domains)
    np.testing.assert_allclose(probs.sum(axis=1), 1, atol=1e-6)
    assert probs.argmax(axis=1)[:num_domains].tolist() == list(range(num_domains))
    classifier.save(tmp_path)
    np.testing.assert_array_equal(load_classifier(tmp_path, "tfidf").predict(NEW), probs)


def test_subword_pairs_are_counted_and_saved(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("".join(f"{line}\n" for line in TOPICS))
    train_sentencepiece(tmp_path, [[tmp_path / "text"]], [], options=SentencePiece(vocab_size=25), seed=1)
    classifier = train(3, subword_ngrams=2, subword_model=str(tmp_path / MODEL_FILE))
    pieces = classifier.vectorizers["subword"].get_feature_names_out()
    assert any(" " in piece for piece in pieces)
    assert any("\u2581" in piece for piece in pieces)
    expected = classifier.predict(NEW)
    assert not np.array_equal(expected, train(3).predict(NEW))
    classifier.save(tmp_path / "saved")
    (tmp_path / MODEL_FILE).unlink()
    np.testing.assert_array_equal(load_classifier(tmp_path / "saved", "tfidf").predict(NEW), expected)
    (tmp_path / "saved" / MODEL_FILE).unlink()
    with pytest.raises(InputError, match=r"sentencepiece\.model: cannot be loaded"):
        load_classifier(tmp_path / "saved", "tfidf")


def test_unusable_files_and_text_are_named(tmp_path: Path) -> None:
    for backend in ("tfidf", "oracle"):
        with pytest.raises(InputError, match=str(tmp_path)):
            load_classifier(tmp_path, backend)
    with pytest.raises(InputError, match=r"teacher\.subword_ngrams: "):
        TfidfClassifier(TfidfTeacher(subword_ngrams=2))
    with pytest.raises(InputError, match=r"teacher\.min_count: "):
        TfidfClassifier(TfidfTeacher(min_count=50)).fit(["a b", "c d"], np.array([0, 1]), 2)


@pytest.mark.parametrize(
    ("arrays", "record"),
    [
        ({"coefficients": np.full((3, 4), np.nan)}, {}),
        ({"word_idf": np.array([{"run": "me"}], dtype=object)}, {}),
        ({}, {"word": ["a", "a"]}),
        ({}, {"word_ngrams": "many"}),
    ],
)
def test_tampered_files_end_in_one_line(tmp_path: Path, arrays: dict[str, Any], record: dict[str, Any]) -> None:
    train(3).save(tmp_path)
    with np.load(tmp_path / "tfidf.npz") as saved:
        changed = dict(saved) | arrays
    np.savez(tmp_path / "tfidf.npz", **changed)
    path = tmp_path / "tfidf.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | record))
    with pytest.raises(InputError, match=r"tfidf\.(json|npz): .*; train the teacher again") as caught:
        load_classifier(tmp_path, "tfidf")
    assert "\n" not in str(caught.value)
