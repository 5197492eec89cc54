"""The TF-IDF classifier learns, and survives being saved."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse
from scipy.special import softmax

from fairseq_ext.base.errors import InputError
from fairseq_ext.classifiers.classifier import TfidfTeacher, load_classifier, train_classifier
from fairseq_ext.classifiers.tfidf import fit
from fairseq_ext.text.subwords import MODEL_FILE, SentencePiece, train_sentencepiece

TOPICS = ["the account has credit", "a tree in the garden", "the court and the law"]
NEW = ["Credit Account", "trees", "court", "a law in it", "völlig unbekannt", ""]


def train(folder: Path, num_domains: int = 3, **options: Any) -> np.ndarray:
    """Train and save; what scikit-learn itself predicts of new texts."""
    texts, labels = [f"{TOPICS[n % num_domains]} {n}" for n in range(30)], np.arange(30) % num_domains
    train_classifier(folder, TfidfTeacher(**options), texts, labels, seed=1)
    vectorizers, coefficients, intercepts = fit(TfidfTeacher(**options), texts, labels)
    features = scipy.sparse.hstack([each.transform(NEW) for each in vectorizers.values()], format="csr")
    return softmax(features @ coefficients.T + intercepts, axis=1).astype(np.float32)


@pytest.mark.parametrize("num_domains", [2, 3])
def test_it_learns_and_predicts_as_scikit_learn_does(tmp_path: Path, num_domains: int) -> None:
    expected = train(tmp_path, num_domains)
    probs = load_classifier(tmp_path, "tfidf").predict(NEW)
    assert probs.dtype == np.float32
    np.testing.assert_allclose(probs, expected, rtol=1e-6)
    assert probs.argmax(axis=1)[:num_domains].tolist() == list(range(num_domains))


def test_subword_pairs_are_counted_and_saved(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("".join(f"{line}\n" for line in TOPICS))
    train_sentencepiece(tmp_path, [[tmp_path / "text"]], [], options=SentencePiece(vocab_size=25), seed=1)
    saved = tmp_path / "saved"
    expected = train(saved, subword_ngrams=2, subword_model=str(tmp_path / MODEL_FILE))
    assert any(" " in piece for piece in json.loads((saved / "tfidf.json").read_text())["subword"])
    (tmp_path / MODEL_FILE).unlink()
    np.testing.assert_allclose(load_classifier(saved, "tfidf").predict(NEW), expected, rtol=1e-6)
    (saved / MODEL_FILE).unlink()
    with pytest.raises(InputError, match=r"sentencepiece\.model: "):
        load_classifier(saved, "tfidf")


def test_unusable_files_and_text_are_named(tmp_path: Path) -> None:
    for backend in ("tfidf", "oracle"):
        with pytest.raises(InputError, match=str(tmp_path)):
            load_classifier(tmp_path, backend)
    for options in ({"subword_ngrams": 2}, {"min_count": 50}):
        with pytest.raises(InputError, match=rf"teacher\.{min(options)}: "):
            train(tmp_path, **options)


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
    train(tmp_path)
    with np.load(tmp_path / "tfidf.npz") as saved:
        changed = dict(saved) | arrays
    np.savez(tmp_path / "tfidf.npz", **changed)
    path = tmp_path / "tfidf.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | record))
    with pytest.raises(InputError, match=r"tfidf\.(json|npz): .*; train the teacher again") as caught:
        load_classifier(tmp_path, "tfidf")
    assert "\n" not in str(caught.value)
