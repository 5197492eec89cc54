"""Domain classifiers: their options (the section ``teacher`` of an experiment file), training and loading.

A trained classifier is a folder of plain data, without pickles.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any, Literal, Protocol

import numpy as np
from pydantic import Field

from fairseq_ext.base.errors import InputError
from fairseq_ext.base.sections import LARGEST, Count, File, Number, Section, Several

MODEL_FOLDER = "model"
# Maximum number of training sentences; of more, a sample is used, with the same share of each domain.
MAX_SENTENCES = 500_000
# Modules by kind, imported on demand, since each imports a large library.
_MODULES = {"tfidf": "tfidf", "transformers": "transformers_classifier"}
_TwoOrMore = Annotated[int, Field(ge=2, lt=LARGEST)]
_Positive = Annotated[Number, Field(gt=0, lt=LARGEST)]


class _Options(Section):
    folds: _TwoOrMore = 5
    max_sentences: Count = MAX_SENTENCES
    base_text: Several[File] = ()
    """Source text of no domain, one sentence a line: what is like it gets the class ``base``, the base model alone."""


class TfidfTeacher(_Options):
    """Options of the TF-IDF classifier; see :mod:`fairseq_ext.classifiers.tfidf`."""

    backend: Literal["tfidf"] = "tfidf"
    word_ngrams: Count = 2
    char_ngrams: _TwoOrMore = 5
    subword_ngrams: Count | None = None
    """Maximum length of subword n-grams; by default subwords are not used."""
    subword_model: str | None = None
    """SentencePiece model for subwords; by default the experiment's."""
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
    """A trained classifier, which predicts the domains of sentences."""

    def predict(self, texts: Sequence[str]) -> np.ndarray:
        """Return P(domain | text), N×D, float32; rows sum to 1."""


def train_classifier(folder: Path, options: Teacher, texts: Sequence[str], labels: np.ndarray, seed: int) -> None:
    """Train on N texts and their domain numbers (N), which must include each number from 0, and save the classifier."""
    _module(options.backend).train(folder, options, texts, labels, seed)


def load_classifier(folder: Path, backend: str) -> Classifier:
    """Load a classifier written by :func:`train_classifier`."""
    if backend not in _MODULES:
        raise InputError(f"{folder}: unknown backend {backend!r}; choose {' or '.join(_MODULES)}")
    classifier: Classifier = _module(backend).load(folder)
    return classifier


def input_files(options: Teacher) -> list[Path]:
    """Return the input files of a classifier that its predictions depend on."""
    if isinstance(options, TfidfTeacher) and options.subword_ngrams and options.subword_model:
        return [Path(options.subword_model), *options.base_text]
    return [*options.base_text]


def _module(backend: str) -> Any:
    return import_module(f"fairseq_ext.classifiers.{_MODULES[backend]}")
