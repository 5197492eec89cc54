"""Domain classifiers of any kind: made from options, and loaded from a folder."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from fairseq_ext.classifiers.options import Teacher, TfidfTeacher
from fairseq_ext.inputs.errors import InputError

MODEL_FOLDER = "model"
# By kind, module and class. Each imports its library, so it is imported only when it is asked for.
_CLASSES = {
    "tfidf": ("tfidf", "TfidfClassifier"),
    "transformers": ("transformers_classifier", "TransformersClassifier"),
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
    if isinstance(options, TfidfTeacher) and options.subword_ngrams and options.subword_model:
        return [Path(options.subword_model)]
    return []


def _class_of(backend: str) -> Any:
    module, name = _CLASSES[backend]
    return getattr(import_module(f"fairseq_ext.classifiers.{module}"), name)
