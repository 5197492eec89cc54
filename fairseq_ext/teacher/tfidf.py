"""Domain classifier on word and character n-grams: a minute for tens of thousands of sentences.

Multinomial logistic regression on sub-linear TF-IDF. On text as different as whole products it comes
close to a fine-tuned encoder (Klimaszewski et al. 2023 use RoBERTa), and it needs no GPU.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from threadpoolctl import threadpool_limits

from fairseq_ext.inputs.array_file import read_arrays
from fairseq_ext.inputs.errors import InputError, shown
from fairseq_ext.inputs.json_file import is_texts, read_json
from fairseq_ext.teacher.options import TfidfTeacher

_ARRAYS = "tfidf.npz"
_NGRAMS = "tfidf.json"
_MAX_ITERATIONS = 1000
_LONGEST_NGRAM = 1000
_REMEDY = "train the teacher again"


class TfidfClassifier:
    """See :class:`~fairseq_ext.teacher.classifier.Classifier`.

    Args:
        options: lengths of the n-grams, their least count, and the regression's C.
    """

    def __init__(self, options: TfidfTeacher) -> None:
        self.options = options
        self.vectorizers = _make_vectorizers(options)
        self.coefficients = np.empty((0, 0))
        self.intercepts = np.empty(0)

    def fit(self, texts: Sequence[str], labels: np.ndarray, num_domains: int) -> None:
        """Train from scratch.

        Raises:
            InputError: if no n-gram is frequent enough.
        """
        try:
            blocks = [each.fit_transform(texts) for each in self.vectorizers]
        except ValueError as error:
            raise InputError(f"teacher.min_count: no n-gram is left ({error}); lower it") from None
        features = scipy.sparse.hstack(blocks, format="csr")
        regression = LogisticRegression(C=self.options.inverse_regularisation, max_iter=_MAX_ITERATIONS)
        # Sums of another number of threads are others in the last digit; and models are trained side by side.
        with threadpool_limits(1):
            regression.fit(features, labels)
        if list(regression.classes_) != list(range(num_domains)):
            raise ValueError(f"each of the {num_domains} domains needs text, got only {regression.classes_}")
        self.coefficients, self.intercepts = _one_row_a_domain(regression.coef_, regression.intercept_)

    def predict(self, texts: Sequence[str]) -> np.ndarray:
        """Return P(domain | text), N×D, float32."""
        features = scipy.sparse.hstack([each.transform(texts) for each in self.vectorizers], format="csr")
        logits = features @ self.coefficients.T + self.intercepts
        exponentials = np.exp(logits - logits.max(axis=1, keepdims=True))
        return (exponentials / exponentials.sum(axis=1, keepdims=True)).astype(np.float32)

    def save(self, folder: Path) -> None:
        """Write the n-grams as JSON and the numbers as plain arrays: nothing in them can run code."""
        folder.mkdir(parents=True, exist_ok=True)
        arrays = {"coefficients": self.coefficients, "intercepts": self.intercepts}
        for kind, vectorizer in zip(("word", "char"), self.vectorizers, strict=True):
            arrays[f"{kind}_idf"] = vectorizer.idf_
        np.savez(folder / _ARRAYS, allow_pickle=False, **arrays)
        record = {
            "word_ngrams": self.options.word_ngrams,
            "char_ngrams": self.options.char_ngrams,
            "word": self.vectorizers[0].get_feature_names_out().tolist(),
            "char": self.vectorizers[1].get_feature_names_out().tolist(),
        }
        (folder / _NGRAMS).write_text(json.dumps(record, ensure_ascii=False) + "\n", encoding="utf-8")

    @classmethod
    def load(cls, folder: Path) -> TfidfClassifier:
        """Load what :meth:`save` wrote; it predicts the same numbers.

        Raises:
            InputError: if files are missing or do not fit together.
        """
        record = read_json(folder / _NGRAMS, _REMEDY)
        arrays = read_arrays(folder / _ARRAYS, ["coefficients", "intercepts", "word_idf", "char_idf"], _REMEDY)
        _check_saved(record, arrays, folder)
        classifier = cls(TfidfTeacher(word_ngrams=record["word_ngrams"], char_ngrams=record["char_ngrams"]))
        for kind, vectorizer in zip(("word", "char"), classifier.vectorizers, strict=True):
            vectorizer.vocabulary = {ngram: column for column, ngram in enumerate(record[kind])}
            vectorizer.idf_ = arrays[f"{kind}_idf"]
        classifier.coefficients, classifier.intercepts = arrays["coefficients"], arrays["intercepts"]
        return classifier


def _check_saved(record: dict[str, Any], arrays: dict[str, np.ndarray], folder: Path) -> None:
    """Check that files are what :meth:`TfidfClassifier.save` wrote, and fit together."""
    for key in ("word_ngrams", "char_ngrams"):
        length = record.get(key)
        if type(length) is not int or not 1 <= length <= _LONGEST_NGRAM:
            raise InputError(f"{folder / _NGRAMS}: {key}: {shown(length)} is no length of n-grams; {_REMEDY}")
    for key in ("word", "char"):
        if not is_texts(record.get(key)) or not 0 < len(record[key]) == len(set(record[key])):
            raise InputError(f"{folder / _NGRAMS}: {key} is no list of different n-grams; {_REMEDY}")
    words, characters = len(record["word"]), len(record["char"])
    domains = len(arrays["intercepts"]) if arrays["intercepts"].ndim == 1 else 0
    shapes = {
        "coefficients": (domains, words + characters),
        "intercepts": (domains,),
        "word_idf": (words,),
        "char_idf": (characters,),
    }
    for name, shape in shapes.items():
        array = arrays[name]
        if not domains or array.shape != shape or array.dtype.kind != "f" or not np.isfinite(array).all():
            raise InputError(f"{folder / _ARRAYS}: {name} is no finite array of shape {shape}; {_REMEDY}")


def _make_vectorizers(options: TfidfTeacher) -> list[TfidfVectorizer]:
    shared = {"sublinear_tf": True, "min_df": options.min_count, "strip_accents": None, "lowercase": True}
    # A word is anything between blanks and punctuation, one letter included: scikit-learn wants two.
    words = TfidfVectorizer(ngram_range=(1, options.word_ngrams), token_pattern=r"\w+", **shared)
    characters = TfidfVectorizer(analyzer="char_wb", ngram_range=(2, options.char_ngrams), **shared)
    return [words, characters]


def _one_row_a_domain(coefficients: np.ndarray, intercepts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """With two domains scikit-learn keeps the second's row only, whose softmax partner is zero."""
    if len(intercepts) > 1:
        return coefficients, intercepts
    return np.vstack([np.zeros_like(coefficients), coefficients]), np.concatenate([[0.0], intercepts])
