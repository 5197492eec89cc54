"""Domain classifiers of any kind: made from options, and loaded from a folder."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from fairseq_ext.classifiers.options import HoulsbyTeacher, Teacher, TfidfTeacher
from fairseq_ext.corpora.encoders import subword_files
from fairseq_ext.inputs.errors import InputError

MODEL_FOLDER = "model"
# By kind, module and class. Each imports its library, so it is imported only when it is asked for.
_CLASSES = {
    "tfidf": ("tfidf", "TfidfClassifier"),
    "transformers": ("transformers_classifier", "TransformersClassifier"),
    "houlsby": ("houlsby_classifier", "HoulsbyClassifier"),
}


class Classifier(Protocol):
    """Predicts the domain of a sentence."""

    def fit(self, texts: Sequence[str], labels: np.ndarray, num_domains: int) -> None:
        """Train from scratch on N texts and their domain numbers (N)."""

    def predict(self, texts: Sequence[str]) -> np.ndarray:
        """Return P(domain | text), N×D, float32, rows sum to 1."""

    def save(self, folder: Path) -> None:
        """Write all that :func:`load_classifier` needs, without pickled code."""


def make_classifier(options: Teacher, seed: int) -> Classifier:
    """Make an untrained classifier."""
    classifier: Classifier = _class_of(options.backend)(options, seed)
    return classifier


def load_classifier(folder: Path, backend: str) -> Classifier:
    """Load what ``save`` wrote."""
    if backend not in _CLASSES:
        raise InputError(f"{folder}: unknown kind of teacher {backend!r}; there are {', '.join(_CLASSES)}")
    classifier: Classifier = _class_of(backend).load(folder)
    return classifier


def input_files(options: Teacher) -> list[Path]:
    """Files that a classifier starts from, whose contents its predictions depend on."""
    if isinstance(options, TfidfTeacher):
        return [Path(options.subword_model)] if options.subword_ngrams and options.subword_model else []
    if not isinstance(options, HoulsbyTeacher):
        return []
    folder = options.subwords_folder
    return [Path(options.model), *(folder / name for name in subword_files(folder))]


def _class_of(backend: str) -> Any:
    module, name = _CLASSES[backend]
    return getattr(import_module(f"fairseq_ext.classifiers.{module}"), name)
