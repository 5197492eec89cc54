"""The language filter, and batched language identification.

langid.py (Lui and Baldwin 2012) and its successor py3langid are naive Bayes models over byte n-grams, which are found
by an automaton (Aho and Corasick 1975). The packages step through it byte by byte in Python. This module processes
thousands of pieces of text in parallel with numpy: the same decisions, 9 (py3langid) and 45 (langid) times as fast.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Annotated, Any, Literal

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from pydantic import Field

from fairseq_ext.base.errors import InputError
from fairseq_ext.base.sections import Number, Several
from fairseq_ext.text.cleaning.filters import SIDES, Batch, Filter
from fairseq_ext.text.folded_text import normal_form
from fairseq_ext.text.languages import base_language
from fairseq_ext.text.text_files import Pair

if TYPE_CHECKING:
    from scipy.sparse import csr_array

# The most frequent languages on the web, without close relatives of others in the list (sk, uk, gl, no …), with which
# short sentences are easily confused.
DISTRACTORS = ("ar", "cs", "de", "en", "es", "fr", "it", "ja", "nl", "pl", "pt", "ru", "sv", "tr", "zh")
# Shorter sentences pass: on one or two words, langid is confident and often wrong.
_MIN_CHARACTERS = {"langid": 30, "py3langid": 10}
# Ends a sentence: byte 255 never occurs in UTF-8 and hence in n-grams, so it resets the automaton.
_END = b"\xff"
_LONGEST_NGRAM = 6  # bytes, of both packages' models
_PIECE_BYTES = 128
_CHUNK_BYTES = 1 << 20
# Parameters of check_sides.
SAMPLE = 1000  # pairs to check
_LEAST = 50  # minimum number of pairs for a check
_LEAST_CHARACTERS = 20
_MOST = 0.7  # maximum share of pairs with a side in the other language, or with equal sides


class LanguageId(Filter):
    """Drops pairs with a side in the wrong language.

    A side is in the wrong language if another language is the likeliest and the expected one has a probability below
    ``min_probability``.
    """

    backend: Literal["py3langid", "langid"] = "py3langid"
    """``py3langid``, a newer model, or ``langid`` as in Klimaszewski et al. (2023), which is overconfident: with the
    same settings it drops about twenty times as many good sentences."""
    distractors: Several[str] | None = None
    """Candidate languages in addition to the pair's own; by default 15 widespread ones. Repeat the pair's own languages
    to choose only between these two. Add close relatives (Slovak for Czech) only if they occur in the text."""
    min_probability: Annotated[Number, Field(gt=0, le=1)] = 0.02
    """Minimum probability of the expected language."""
    min_characters: Annotated[int, Field(ge=0)] | None = None
    """Minimum length of a side to check, in characters; by default 10 for py3langid and 30 for langid."""

    def check(self, langs: tuple[str, str]) -> None:
        self._classifier(langs)

    def _classifier(self, langs: tuple[str, str]) -> LanguageClassifier:
        distractors = DISTRACTORS if self.distractors is None else self.distractors
        return load_classifier(self.backend, tuple(sorted({*map(base_language, langs), *distractors})))

    def side_reasons(self, batch: Batch, side: int) -> list[str | None]:
        classifier, texts, expected = self._classifier(batch.langs), batch.texts(side), base_language(batch.langs[side])
        shortest = _MIN_CHARACTERS[self.backend] if self.min_characters is None else self.min_characters
        rows = [row for row, text in enumerate(texts) if len(text) >= shortest]
        probabilities = classifier.probabilities([texts[row] for row in rows])
        column = classifier.langs.index(expected)
        best = probabilities.argmax(axis=1)
        is_other = (best != column) & (probabilities[:, column] < self.min_probability)
        reasons: list[str | None] = [None] * len(texts)
        for index in np.flatnonzero(is_other).tolist():
            found = best[index]
            likeliest = f"{classifier.langs[found]} ({probabilities[index, found]:.2f})"
            reasons[rows[index]] = f"{SIDES[side]} is {likeliest}, not {expected} ({probabilities[index, column]:.2f})"
        return reasons


def check_sides(pairs: Sequence[Pair], langs: tuple[str, str], where: str) -> None:
    """Raise InputError if source and target are swapped, or both in the same language.

    Few or short pairs and languages unknown to py3langid are not checked. ``where`` is the corpus for messages.
    """
    source, target = map(base_language, langs)
    long = [pair for pair in pairs if min(map(len, pair)) >= _LEAST_CHARACTERS]
    if len(long) < _LEAST or source == target:
        return
    translated = [pair for pair in long if pair[0] != pair[1]]
    if len(translated) < (1 - _MOST) * len(long):
        raise InputError(f"{where}: both sides have the same text; give {source} text and its {target} translation")
    if len(translated) < _LEAST:
        return
    try:
        classifier = load_classifier("py3langid", tuple(sorted({source, target})))
    except InputError:
        return
    column = classifier.langs.index(target)
    sides = [np.mean(classifier.probabilities([pair[side] for pair in translated])[:, column] > 0.5) for side in (0, 1)]
    is_target = [share > _MOST for share in sides]
    is_source = [share < 1 - _MOST for share in sides]
    if is_target[0] and is_source[1]:
        raise InputError(
            f"{where}: the {source} side is in {target} and the {target} side in {source}; swap the files' names"
        )
    if is_target[0] or is_source[1]:
        side, lang, wanted = ("source", target, source) if is_target[0] else ("target", source, target)
        raise InputError(f"{where}: both sides are in {lang}; give a {side} side in {wanted}")


@lru_cache(maxsize=8)
def load_classifier(backend: str, langs: tuple[str, ...]) -> LanguageClassifier:
    """Load the model of ``langid`` or ``py3langid``, restricted to some languages; cached within the process."""
    return _MODELS[backend](langs)


class LanguageClassifier:
    """Naive Bayes over byte n-grams; a sentence's probabilities do not depend on other sentences.

    A sentence's score for a language is the language's log prior plus the weights of the *features* of the automaton's
    states, one state per byte. This is the model of py3langid 0.4.0: counts of features are log-scaled, and scores are
    divided by the square root of the length.
    """

    def __init__(self, langs: tuple[str, ...]) -> None:
        from py3langid.langid import MODEL_FILE, LanguageIdentifier

        package = LanguageIdentifier.from_model_file(MODEL_FILE)
        self._choose_among(langs, package, "py3langid")
        # For each state, next_state[row_start[state] + byte] is the next state, and feature[state] is its row of the
        # weights log P(feature | language), F×L, or -1.
        self._row_start = np.array(package.tk_row, dtype=np.int64) << 8
        self._feature = np.array(package.tk_output, dtype=np.int32)
        self._weights = package.nb_ptc.astype(np.float64)

    def _choose_among(self, langs: tuple[str, ...], package: Any, backend: str) -> None:
        """Restrict the package's model to some languages, and set the attributes shared by both models."""
        for lang in langs:
            if lang not in package.nb_classes:
                known = ", ".join(sorted(set(package.nb_classes)))
                raise InputError(f"language: {backend} does not support {lang!r}; it supports {known}")
        package.set_languages(langs)
        self.langs = list(dict.fromkeys(package.nb_classes))
        # A model may have several classes per language.
        self._columns = [np.flatnonzero(np.array(package.nb_classes) == lang) for lang in self.langs]
        self._next_state = np.frombuffer(package.tk_nextmove, dtype=package.tk_nextmove.typecode)
        self._priors = package.nb_pc.astype(np.float64)

    def probabilities(self, texts: Sequence[str]) -> np.ndarray:
        """Return P(language | sentence) of N sentences, N×L, equal to those of the package's ``classify``."""
        if not texts:
            return np.zeros((0, len(self.langs)))
        encoded = [self._encode(text) for text in texts]
        sizes = np.array([len(text) for text in encoded], dtype=np.int64)
        cuts = np.flatnonzero(np.diff(np.cumsum(sizes + 1) // _CHUNK_BYTES)) + 1
        scores = [
            self._scores(self._features(encoded[part[0] : part[-1] + 1]), sizes[part])
            for part in np.split(np.arange(len(encoded)), cuts)
        ]
        exponentials = np.exp(np.concatenate(scores))
        exponentials /= exponentials.sum(axis=1, keepdims=True)
        return np.stack([exponentials[:, columns].sum(axis=1) for columns in self._columns], axis=1)

    def _encode(self, text: str) -> bytes:
        """Return the bytes of a sentence as input to the model."""
        return normal_form("NFC", text.lower() if text.isupper() else text).encode("utf-8", "surrogatepass")

    def _scores(self, features: csr_array, sizes: np.ndarray) -> np.ndarray:
        """Return unnormalised log probabilities.

        Shape:
            features: N×F, with an entry of 1 for each occurrence of a feature; sizes: N, in bytes; result: N×L
        """
        features.sum_duplicates()
        features.data = np.log1p(features.data)
        scores = self._sums(features)
        # Without features, all languages are equally likely.
        scores[np.diff(features.indptr) == 0] = 0
        return scores / np.sqrt(np.maximum(sizes, 1))[:, None]

    def _sums(self, features: csr_array) -> np.ndarray:
        scores = features @ self._weights + self._priors
        return scores - scores.max(axis=1, keepdims=True)

    def _features(self, encoded: Sequence[bytes]) -> csr_array:
        from scipy.sparse import csr_array  # takes a fifth of a second

        text = np.frombuffer(_END.join([*encoded, b""]), dtype=np.uint8)
        found = self._feature.take(self._walk(text))
        is_feature = found >= 0
        starts = np.concatenate([[0], np.cumsum(is_feature)[text == _END[0]]])
        found = found[is_feature]
        return csr_array((np.ones(len(found)), found, starts), shape=(len(encoded), len(self._weights)))

    def _walk(self, text: np.ndarray) -> np.ndarray:
        """Return the automaton's state after each of B bytes.

        A state depends on at most as many bytes as the longest n-gram has. So pieces of text can be processed in
        parallel, each starting this many bytes early.
        """
        pieces = -(-len(text) // _PIECE_BYTES)
        padded = np.full(_LONGEST_NGRAM + pieces * _PIECE_BYTES, _END[0], dtype=np.uint8)
        padded[_LONGEST_NGRAM : _LONGEST_NGRAM + len(text)] = text
        # (n-gram + piece bytes) × pieces
        columns = sliding_window_view(padded, _LONGEST_NGRAM + _PIECE_BYTES)[::_PIECE_BYTES].T
        states = np.zeros((len(columns) + 1, pieces), dtype=self._next_state.dtype)
        for step, column in enumerate(np.ascontiguousarray(columns)):
            states[step + 1] = self._next_state.take(self._row_start.take(states[step]) + column)
        return states[_LONGEST_NGRAM + 1 :].T.ravel()[: len(text)]


class _Langid(LanguageClassifier):
    """The model of langid.py 1.1.6: every occurrence of a feature counts."""

    def __init__(self, langs: tuple[str, ...]) -> None:
        from langid import langid

        package = langid.LanguageIdentifier.from_modelstring(langid.model)
        self._choose_among(langs, package, "langid")
        num_states = len(package.tk_nextmove) // 256
        self._row_start = np.arange(num_states) << 8
        self._feature = np.full(num_states, -1, dtype=np.int32)
        self._weights = np.zeros((num_states, len(package.nb_classes)))
        for state, ngrams in package.tk_output.items():
            if ngrams:  # a state may complete several n-grams; their sum is one feature here
                self._feature[state] = state
                self._weights[state] = package.nb_ptc[list(ngrams)].sum(axis=0, dtype=np.float64)

    def _encode(self, text: str) -> bytes:
        return text.encode("utf-8", "surrogatepass")

    def _scores(self, features: csr_array, sizes: np.ndarray) -> np.ndarray:
        return self._sums(features)


_MODELS = {"langid": _Langid, "py3langid": LanguageClassifier}
