"""Domain classifier on n-grams of words, characters and subwords: a minute for tens of thousands of sentences.

Multinomial logistic regression on sub-linear TF-IDF. On text as different as whole products it comes
close to a fine-tuned encoder (Klimaszewski et al. 2023 use RoBERTa), and it needs no GPU.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from threadpoolctl import threadpool_limits

from fairseq_ext.classifiers.ngram_model import ARRAYS_FILE, LENGTHS, NGRAMS_FILE, WORD, NgramModel
from fairseq_ext.classifiers.options import TfidfTeacher
from fairseq_ext.corpora.subwords import MODEL_FILE, load_subwords
from fairseq_ext.inputs.errors import InputError

_MAX_ITERATIONS = 1000


class TfidfClassifier:
    """See :class:`~fairseq_ext.classifiers.classifier.Classifier`; nothing is drawn."""

    def __init__(self, options: TfidfTeacher, seed: int = 0) -> None:
        del seed
        self.options = options
        self.vectorizers: dict[str, TfidfVectorizer] = _make_vectorizers(options)
        self.coefficients = np.empty((0, 0))
        self.intercepts = np.empty(0)

    def fit(self, texts: Sequence[str], labels: np.ndarray, num_domains: int) -> None:
        try:
            blocks = [each.fit_transform(texts) for each in self.vectorizers.values()]
        except ValueError as error:
            raise InputError(f"teacher.min_count: no n-gram is left ({error}); lower it") from None
        features = scipy.sparse.hstack(blocks, format="csr")
        # scikit-learn's lbfgs takes up to half as long again on so sparse features, and stops farther off in the mean.
        regression = LogisticRegression(
            C=self.options.inverse_regularisation, solver="newton-cg", max_iter=_MAX_ITERATIONS
        )
        # Sums of another number of threads are others in the last digit; and models are trained side by side.
        with threadpool_limits(1):
            regression.fit(features, labels)
        if list(regression.classes_) != list(range(num_domains)):
            raise ValueError(f"each of the {num_domains} domains needs text, got only {regression.classes_}")
        self.coefficients, self.intercepts = _one_row_a_domain(regression.coef_, regression.intercept_)

    def predict(self, texts: Sequence[str]) -> np.ndarray:
        features = scipy.sparse.hstack([each.transform(texts) for each in self.vectorizers.values()], format="csr")
        logits = features @ self.coefficients.T + self.intercepts
        exponentials = np.exp(logits - logits.max(axis=1, keepdims=True))
        return (exponentials / exponentials.sum(axis=1, keepdims=True)).astype(np.float32)

    def save(self, folder: Path) -> None:
        """Write the n-grams as JSON and the numbers as plain arrays: nothing in them can run code."""
        folder.mkdir(parents=True, exist_ok=True)
        arrays = {"coefficients": self.coefficients, "intercepts": self.intercepts}
        arrays |= {f"{kind}_idf": vectorizer.idf_ for kind, vectorizer in self.vectorizers.items()}
        np.savez(folder / ARRAYS_FILE, allow_pickle=False, **arrays)
        record: dict[str, Any] = {LENGTHS[kind]: getattr(self.options, LENGTHS[kind]) for kind in self.vectorizers}
        record |= {kind: each.get_feature_names_out().tolist() for kind, each in self.vectorizers.items()}
        if self.options.subword_ngrams:
            shutil.copyfile(str(self.options.subword_model), folder / MODEL_FILE)
        (folder / NGRAMS_FILE).write_text(json.dumps(record, ensure_ascii=False) + "\n", encoding="utf-8")

    @staticmethod
    def load(folder: Path) -> NgramModel:
        """Load what :meth:`save` wrote; it predicts the same numbers."""
        return NgramModel.load(folder)


def _make_vectorizers(options: TfidfTeacher) -> dict[str, TfidfVectorizer]:
    """By kind of n-gram, in the order of the coefficients."""
    shared = {"sublinear_tf": True, "min_df": options.min_count, "strip_accents": None}
    # A word is anything between blanks and punctuation, one letter included: scikit-learn wants two.
    words = TfidfVectorizer(ngram_range=(1, options.word_ngrams), token_pattern=WORD.pattern, lowercase=True, **shared)
    characters = TfidfVectorizer(analyzer="char_wb", ngram_range=(2, options.char_ngrams), lowercase=True, **shared)
    vectorizers = {"word": words, "char": characters}
    if options.subword_ngrams:
        vectorizers["subword"] = TfidfVectorizer(
            ngram_range=(1, options.subword_ngrams),
            tokenizer=_cutter(options),
            token_pattern=None,
            lowercase=False,
            **shared,
        )
    return vectorizers


def _cutter(options: TfidfTeacher) -> Callable[[str], list[str]]:
    if options.subword_model is None:
        raise InputError(f"teacher.subword_ngrams: needs teacher.subword_model, a {MODEL_FILE}")
    processor = load_subwords(Path(options.subword_model))
    return lambda text: processor.encode(text, out_type=str)


def _one_row_a_domain(coefficients: np.ndarray, intercepts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """With two domains scikit-learn keeps the second's row only, whose softmax partner is zero."""
    if len(intercepts) > 1:
        return coefficients, intercepts
    return np.vstack([np.zeros_like(coefficients), coefficients]), np.concatenate([[0.0], intercepts])
