"""Domain classifiers of any kind: their options (the section ``teacher`` of an experiment file), training and loading.

A classifier that was trained is a folder, which says nothing but data: no pickled code.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any, Literal, Protocol

import numpy as np
from pydantic import Field

from fairseq_ext.inputs.errors import InputError
from fairseq_ext.inputs.models import LARGEST, Count, Number, Section

MODEL_FOLDER = "model"
# Of more training sentences than this a classifier is trained on a sample, the same share of every domain.
MAX_SENTENCES = 500_000
# Modules, by kind. Each imports its library, so it is imported only when it is asked for.
_MODULES = {"tfidf": "tfidf", "transformers": "transformers_classifier"}
_TwoOrMore = Annotated[int, Field(ge=2, lt=LARGEST)]
_Positive = Annotated[Number, Field(gt=0, lt=LARGEST)]


class _Options(Section):
    folds: _TwoOrMore = 5
    max_sentences: Count = MAX_SENTENCES


class TfidfTeacher(_Options):
    """Options of the TF-IDF classifier; see :mod:`fairseq_ext.classifiers.tfidf`."""

    backend: Literal["tfidf"] = "tfidf"
    word_ngrams: Count = 2
    char_ngrams: _TwoOrMore = 5
    subword_ngrams: Count | None = None
    """The longest sequence of subwords to count; none without it."""
    subword_model: str | None = None
    """The SentencePiece model that cuts them; by default the experiment's."""
    min_count: Count = 2
    inverse_regularisation: _Positive = 10.0


class TransformersTeacher(_Options):
    """Options of the fine-tuned classifier; see :mod:`fairseq_ext.classifiers.transformers_classifier`."""

    backend: Literal["transformers"] = "transformers"
    model: str
    epochs: _Positive = 3.0
    batch_size: Count = 32
    learning_rate: _Positive = 2e-5
    max_length: Count = 128
    device: Literal["auto", "cpu", "cuda"] = "auto"
    precision: Literal["auto", "float32", "bfloat16"] = "auto"


Teacher = TfidfTeacher | TransformersTeacher


class Classifier(Protocol):
    """Predicts the domain of a sentence."""

    def predict(self, texts: Sequence[str]) -> np.ndarray:
        """Return P(domain | text), N×D, float32, rows sum to 1."""


def train_classifier(folder: Path, options: Teacher, texts: Sequence[str], labels: np.ndarray, seed: int) -> None:
    """Train on N texts and their domain numbers (N), of which there is each from 0, and write the classifier."""
    _module(options.backend).train(folder, options, texts, labels, seed)


def load_classifier(folder: Path, backend: str) -> Classifier:
    """Load what :func:`train_classifier` wrote."""
    if backend not in _MODULES:
        raise InputError(f"{folder}: unknown kind of teacher {backend!r}; there are {', '.join(_MODULES)}")
    classifier: Classifier = _module(backend).load(folder)
    return classifier


def input_files(options: Teacher) -> list[Path]:
    """Files that a classifier starts from, whose contents its predictions depend on."""
    if isinstance(options, TfidfTeacher) and options.subword_ngrams and options.subword_model:
        return [Path(options.subword_model)]
    return []


def _module(backend: str) -> Any:
    return import_module(f"fairseq_ext.classifiers.{_MODULES[backend]}")
