"""Domain classifier on n-grams of words, characters and subwords; tens of thousands of sentences take a minute.

Multinomial logistic regression on sub-linear TF-IDF. On clearly distinct domains, such as different products, it comes
close to a fine-tuned encoder (Klimaszewski et al. 2023 use RoBERTa) without a GPU. It is trained with scikit-learn;
prediction uses only numpy, with equal results.
"""

from __future__ import annotations

import json
import re
import shutil
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from fairseq_ext.base.array_file import read_arrays
from fairseq_ext.base.errors import InputError, shown
from fairseq_ext.base.json_file import is_texts, read_json
from fairseq_ext.classifiers.classifier import TfidfTeacher
from fairseq_ext.text.subwords import MODEL_FILE, load_subwords

_ARRAYS_FILE, _NGRAMS_FILE = "tfidf.npz", "tfidf.json"
_LENGTHS = {kind: f"{kind}_ngrams" for kind in ("word", "char", "subword")}  # option by kind of n-gram
_WORD = re.compile(r"\w+")  # includes single letters, which scikit-learn's default omits
_SPACES = re.compile(r"\s\s+")
_LONGEST_NGRAM = 1000
_MAX_ITERATIONS = 1000
_REMEDY = "train the teacher again"


def train(folder: Path, options: TfidfTeacher, texts: Sequence[str], labels: np.ndarray, seed: int) -> None:
    """Train, and write n-grams as JSON and weights as plain arrays; training is deterministic and ignores the seed."""
    del seed
    vectorizers, coefficients, intercepts = fit(options, texts, labels)
    folder.mkdir(parents=True, exist_ok=True)
    arrays = {"coefficients": coefficients, "intercepts": intercepts}
    arrays |= {f"{kind}_idf": vectorizer.idf_ for kind, vectorizer in vectorizers.items()}
    np.savez(folder / _ARRAYS_FILE, allow_pickle=False, **arrays)
    record = {_LENGTHS[kind]: getattr(options, _LENGTHS[kind]) for kind in vectorizers}
    record |= {kind: each.get_feature_names_out().tolist() for kind, each in vectorizers.items()}
    if options.subword_model and options.subword_ngrams:
        shutil.copyfile(options.subword_model, folder / MODEL_FILE)
    (folder / _NGRAMS_FILE).write_text(json.dumps(record, ensure_ascii=False) + "\n", encoding="utf-8")


def fit(
    options: TfidfTeacher, texts: Sequence[str], labels: np.ndarray
) -> tuple[dict[str, Any], np.ndarray, np.ndarray]:
    """Return scikit-learn's vectorizers by kind of n-gram, concatenated coefficients, D×F, and intercepts, D."""
    import scipy.sparse
    from sklearn.linear_model import LogisticRegression
    from threadpoolctl import threadpool_limits

    vectorizers = _make_vectorizers(options)
    try:
        blocks = [each.fit_transform(texts) for each in vectorizers.values()]
    except ValueError as error:
        raise InputError(f"teacher.min_count: leaves no n-grams ({error}); lower it") from None
    features = scipy.sparse.hstack(blocks, format="csr")
    # On these sparse features, lbfgs takes up to 50% longer and stops farther from the optimum on average.
    regression = LogisticRegression(C=options.inverse_regularisation, solver="newton-cg", max_iter=_MAX_ITERATIONS)
    # One thread, since rounding depends on the number of threads, and models are trained in parallel.
    with threadpool_limits(1):
        regression.fit(features, labels)
    coefficients, intercepts = regression.coef_, regression.intercept_
    if len(intercepts) == 1:  # two domains: only the second's row, with zeros as the first's
        coefficients = np.vstack([np.zeros_like(coefficients), coefficients])
        intercepts = np.concatenate([[0.0], intercepts])
    return vectorizers, coefficients, intercepts


def _make_vectorizers(options: TfidfTeacher) -> dict[str, Any]:
    """Return vectorizers by kind of n-gram, in the order of the coefficients."""
    from sklearn.feature_extraction.text import TfidfVectorizer

    shared = {"sublinear_tf": True, "min_df": options.min_count, "strip_accents": None}
    words = TfidfVectorizer(ngram_range=(1, options.word_ngrams), token_pattern=_WORD.pattern, lowercase=True, **shared)
    characters = TfidfVectorizer(analyzer="char_wb", ngram_range=(2, options.char_ngrams), lowercase=True, **shared)
    vectorizers = {"word": words, "char": characters}
    if options.subword_ngrams:
        if options.subword_model is None:
            raise InputError(f"teacher.subword_ngrams: needs teacher.subword_model; set it to a {MODEL_FILE}")
        processor = load_subwords(Path(options.subword_model))
        vectorizers["subword"] = TfidfVectorizer(
            ngram_range=(1, options.subword_ngrams),
            tokenizer=lambda text: processor.encode(text, out_type=str),
            token_pattern=None,
            lowercase=False,
            **shared,
        )
    return vectorizers


def load(folder: Path) -> NgramModel:
    """Load a classifier written by :func:`train`."""
    record = read_json(folder / _NGRAMS_FILE, _REMEDY)
    kinds = [kind for kind in _LENGTHS if kind != "subword" or kind in record]
    names = ["coefficients", "intercepts", *(f"{kind}_idf" for kind in kinds)]
    arrays = read_arrays(folder / _ARRAYS_FILE, names, _REMEDY)
    _check_saved(record, arrays, kinds, folder)
    subwords = load_subwords(folder / MODEL_FILE, _REMEDY) if "subword" in kinds else None
    return NgramModel(record, arrays, kinds, subwords)


class NgramModel:
    """P(domain | text) of multinomial logistic regression on sub-linear TF-IDF."""

    def __init__(self, record: dict[str, Any], arrays: dict[str, np.ndarray], kinds: list[str], subwords: Any) -> None:
        self._subwords, self._intercepts = subwords, arrays["intercepts"]
        # By kind of n-gram: maximum length, columns, inverse document frequencies, and coefficients, F×D.
        self._lengths = {kind: record[_LENGTHS[kind]] for kind in kinds}
        self._columns = {kind: {ngram: column for column, ngram in enumerate(record[kind])} for kind in kinds}
        self._weights = {kind: arrays[f"{kind}_idf"] for kind in kinds}
        ends = np.cumsum([len(record[kind]) for kind in kinds])[:-1]
        rows = np.split(np.ascontiguousarray(arrays["coefficients"].T), ends)
        self._rows = dict(zip(kinds, rows, strict=True))

    def predict(self, texts: Sequence[str]) -> np.ndarray:
        """Return P(domain | text), N×D, float32."""
        logits = np.stack([self._logits(text) for text in texts]) if texts else np.zeros((0, len(self._intercepts)))
        exponentials = np.exp(logits - logits.max(axis=1, keepdims=True))
        return (exponentials / exponentials.sum(axis=1, keepdims=True)).astype(np.float32)

    def _logits(self, text: str) -> np.ndarray:
        logits = self._intercepts
        for kind, columns in self._columns.items():
            counts = Counter(columns[ngram] for ngram in self._ngrams(kind, text) if ngram in columns)
            if counts:
                found = np.fromiter(counts, np.int64, len(counts))
                values = 1 + np.log(np.fromiter(counts.values(), np.float64, len(counts)))
                values *= self._weights[kind][found]
                logits = logits + (values / np.sqrt(values @ values)) @ self._rows[kind][found]
        return logits

    def _ngrams(self, kind: str, text: str) -> Iterator[str]:
        longest = self._lengths[kind]
        if kind == "char":
            return _characters(text.lower(), longest)
        if kind == "word":
            return _sequences(_WORD.findall(text.lower()), longest)
        return _sequences(self._subwords.encode(text, out_type=str), longest)


def _sequences(words: list[str], longest: int) -> Iterator[str]:
    for length in range(1, min(longest, len(words)) + 1):
        for start in range(len(words) - length + 1):
            yield " ".join(words[start : start + length])


def _characters(text: str, longest: int) -> Iterator[str]:
    """Yield n-grams of two or more characters within words, which are padded by a blank on each side."""
    for word in _SPACES.sub(" ", text).split():
        padded = f" {word} "
        for length in range(2, longest + 1):
            yield padded[:length]
            yield from (padded[start : start + length] for start in range(1, len(padded) - length + 1))
            if length >= len(padded):  # a short word is counted once
                break


def _check_saved(record: dict[str, Any], arrays: dict[str, np.ndarray], kinds: Sequence[str], folder: Path) -> None:
    """Check that the files are valid and consistent."""
    for kind in kinds:
        length, ngrams = record.get(_LENGTHS[kind]), record.get(kind, [])
        if type(length) is not int or not 1 <= length <= _LONGEST_NGRAM:
            where = folder / _NGRAMS_FILE
            raise InputError(f"{where}: {_LENGTHS[kind]}: {shown(length)} is not a length of n-grams; {_REMEDY}")
        if not is_texts(ngrams) or not 0 < len(ngrams) == len(set(ngrams)):
            raise InputError(f"{folder / _NGRAMS_FILE}: {kind} is not a list of distinct n-grams; {_REMEDY}")
    domains = len(arrays["intercepts"]) if arrays["intercepts"].ndim == 1 else 0
    shapes = {
        "coefficients": (domains, sum(len(record[kind]) for kind in kinds)),
        "intercepts": (domains,),
        **{f"{kind}_idf": (len(record[kind]),) for kind in kinds},
    }
    for name, shape in shapes.items():
        array = arrays[name]
        if not domains or array.shape != shape or array.dtype.kind != "f" or not np.isfinite(array).all():
            raise InputError(f"{folder / _ARRAYS_FILE}: {name} is not a finite array of shape {shape}; {_REMEDY}")
