"""Predicting with a classifier on n-grams that was trained and saved: numpy alone, the same numbers."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from fairseq_ext.corpora.subwords import MODEL_FILE, load_subwords
from fairseq_ext.inputs.array_file import read_arrays
from fairseq_ext.inputs.errors import InputError, shown
from fairseq_ext.inputs.json_file import is_texts, read_json

ARRAYS_FILE = "tfidf.npz"
NGRAMS_FILE = "tfidf.json"
LENGTHS = {kind: f"{kind}_ngrams" for kind in ("word", "char", "subword")}  # by kind of n-gram, the option
WORD = re.compile(r"\w+")  # anything between blanks and punctuation, one letter included: scikit-learn wants two
_SPACES = re.compile(r"\s\s+")
_LONGEST_NGRAM = 1000
_REMEDY = "train the teacher again"


class NgramModel:
    """P(domain | text) of multinomial logistic regression on sub-linear TF-IDF.

    Args:
        lengths: by kind of n-gram, the longest.
        ngrams: by kind, in the order of columns.
        weights: by kind, the inverse document frequency of each.
        coefficients: D×F, of the kinds side by side.
        subwords: SentencePiece model; None where there are no n-grams of subwords.
    """

    def __init__(
        self,
        lengths: dict[str, int],
        ngrams: dict[str, list[str]],
        weights: dict[str, np.ndarray],
        coefficients: np.ndarray,
        intercepts: np.ndarray,
        subwords: Any = None,
    ) -> None:
        self._lengths, self._weights, self._subwords = lengths, weights, subwords
        self._columns = {kind: {ngram: column for column, ngram in enumerate(own)} for kind, own in ngrams.items()}
        ends = np.cumsum([len(own) for own in ngrams.values()])[:-1]
        parts = np.split(np.ascontiguousarray(coefficients.T), ends)
        self._rows = dict(zip(ngrams, parts, strict=True))  # by kind, F×D
        self._intercepts = intercepts

    @classmethod
    def load(cls, folder: Path) -> NgramModel:
        """Load what :meth:`~fairseq_ext.classifiers.tfidf.TfidfClassifier.save` wrote."""
        record = read_json(folder / NGRAMS_FILE, _REMEDY)
        kinds = [kind for kind in LENGTHS if kind != "subword" or kind in record]
        arrays = read_arrays(
            folder / ARRAYS_FILE, ["coefficients", "intercepts", *(f"{kind}_idf" for kind in kinds)], _REMEDY
        )
        _check_saved(record, arrays, kinds, folder)
        return cls(
            {kind: record[LENGTHS[kind]] for kind in kinds},
            {kind: record[kind] for kind in kinds},
            {kind: arrays[f"{kind}_idf"] for kind in kinds},
            arrays["coefficients"],
            arrays["intercepts"],
            load_subwords(folder / MODEL_FILE, _REMEDY) if "subword" in kinds else None,
        )

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
            return _sequences(WORD.findall(text.lower()), longest)
        return _sequences(self._subwords.encode(text, out_type=str), longest)


def _sequences(words: list[str], longest: int) -> Iterator[str]:
    for length in range(1, min(longest, len(words)) + 1):
        for start in range(len(words) - length + 1):
            yield " ".join(words[start : start + length])


def _characters(text: str, longest: int) -> Iterator[str]:
    """N-grams of two characters or more within words, with a blank on each side of a word."""
    for word in _SPACES.sub(" ", text).split():
        padded = f" {word} "
        for length in range(2, longest + 1):
            yield padded[:length]
            yield from (padded[start : start + length] for start in range(1, len(padded) - length + 1))
            if length >= len(padded):  # a short word counts once
                break


def _check_saved(record: dict[str, Any], arrays: dict[str, np.ndarray], kinds: Sequence[str], folder: Path) -> None:
    """Check that files are what :meth:`TfidfClassifier.save` wrote, and fit together."""
    for key in (LENGTHS[kind] for kind in kinds):
        length = record.get(key)
        if type(length) is not int or not 1 <= length <= _LONGEST_NGRAM:
            raise InputError(f"{folder / NGRAMS_FILE}: {key}: {shown(length)} is no length of n-grams; {_REMEDY}")
    for key in kinds:
        if not is_texts(record.get(key)) or not 0 < len(record[key]) == len(set(record[key])):
            raise InputError(f"{folder / NGRAMS_FILE}: {key} is no list of different n-grams; {_REMEDY}")
    domains = len(arrays["intercepts"]) if arrays["intercepts"].ndim == 1 else 0
    shapes = {
        "coefficients": (domains, sum(len(record[kind]) for kind in kinds)),
        "intercepts": (domains,),
        **{f"{kind}_idf": (len(record[kind]),) for kind in kinds},
    }
    for name, shape in shapes.items():
        array = arrays[name]
        if not domains or array.shape != shape or array.dtype.kind != "f" or not np.isfinite(array).all():
            raise InputError(f"{folder / ARRAYS_FILE}: {name} is no finite array of shape {shape}; {_REMEDY}")
