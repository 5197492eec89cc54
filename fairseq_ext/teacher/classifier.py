"""What a domain classifier can do, whatever it is made of."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

import numpy as np

from fairseq_ext.inputs.errors import InputError
from fairseq_ext.teacher.options import HoulsbyTeacher, Teacher, TfidfTeacher, TransformersTeacher
from fairseq_ext.text.encoders import subword_files

MODEL_FOLDER = "model"


class Classifier(Protocol):
    """Predicts the domain of a sentence."""

    def fit(self, texts: Sequence[str], labels: np.ndarray, num_domains: int) -> None:
        """Train from scratch on N texts and their domain numbers (N)."""

    def predict(self, texts: Sequence[str]) -> np.ndarray:
        """Return P(domain | text), N×D, float32, rows sum to 1."""

    def save(self, folder: Path) -> None:
        """Write all that :func:`load_classifier` needs, without pickled code."""


def make_classifier(options: Teacher, seed: int) -> Classifier:
    """Make an untrained classifier. Each kind imports its library only when it is asked for."""
    if isinstance(options, TfidfTeacher):
        from fairseq_ext.teacher.tfidf import TfidfClassifier

        return TfidfClassifier(options)
    if isinstance(options, HoulsbyTeacher):
        from fairseq_ext.teacher.houlsby_classifier import HoulsbyClassifier

        return HoulsbyClassifier(options, seed)
    assert isinstance(options, TransformersTeacher)
    from fairseq_ext.teacher.transformers_classifier import TransformersClassifier

    return TransformersClassifier(options, seed)


def input_files(options: Teacher) -> list[Path]:
    """Files that a classifier starts from, whose contents its predictions depend on."""
    if isinstance(options, TfidfTeacher):
        return [Path(options.subword_model)] if options.subword_ngrams and options.subword_model else []
    if not isinstance(options, HoulsbyTeacher):
        return []
    folder = options.subwords_folder
    return [Path(options.model), *(folder / name for name in subword_files(folder))]


def load_classifier(folder: Path, backend: str) -> Classifier:
    """Load what ``save`` wrote.

    Raises:
        InputError: if the kind is unknown or the files are missing or broken.
    """
    if backend == "tfidf":
        from fairseq_ext.teacher.tfidf import TfidfClassifier

        return TfidfClassifier.load(folder)
    if backend == "transformers":
        from fairseq_ext.teacher.transformers_classifier import TransformersClassifier

        return TransformersClassifier.load(folder)
    if backend == "houlsby":
        from fairseq_ext.teacher.houlsby_classifier import HoulsbyClassifier

        return HoulsbyClassifier.load(folder)
    raise InputError(f"{folder}: unknown kind of teacher {backend!r}; there are tfidf, transformers and houlsby")
