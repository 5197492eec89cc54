"""Options of the domain classifiers: the section ``teacher`` of an experiment file."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

# Of more training sentences than this a classifier is trained on a sample, the same share of every domain.
MAX_SENTENCES = 500_000


@dataclass(frozen=True)
class TfidfTeacher:
    """Options of the TF-IDF classifier; see :mod:`fairseq_ext.teacher.tfidf`.

    ``subword_ngrams`` is the longest sequence of subwords to count, None for none; ``subword_model`` the SentencePiece
    model that cuts them, by default the experiment's.
    """

    backend: str = "tfidf"
    folds: int = 5
    max_sentences: int = MAX_SENTENCES
    word_ngrams: int = 2
    char_ngrams: int = 5
    subword_ngrams: int | None = None
    subword_model: str | None = None
    min_count: int = 2
    inverse_regularisation: float = 10.0


@dataclass(frozen=True)
class TransformersTeacher:
    """Options of the fine-tuned classifier; see :mod:`fairseq_ext.teacher.transformers_classifier`."""

    model: str
    backend: str = "transformers"
    folds: int = 5
    max_sentences: int = MAX_SENTENCES
    epochs: float = 3.0
    batch_size: int = 32
    learning_rate: float = 2e-5
    max_length: int = 128
    device: str = "auto"
    precision: str = "auto"


@dataclass(frozen=True)
class HoulsbyTeacher:
    """Options of adapters on a frozen encoder; see :mod:`fairseq_ext.teacher.houlsby_classifier`."""

    model: str
    subwords: str | None = None
    backend: str = "houlsby"
    folds: int = 5
    max_sentences: int = MAX_SENTENCES
    epochs: int = 3
    batch_size: int = 32
    learning_rate: float = 1e-3
    bottleneck_dim: int = 64
    device: str = "auto"
    precision: str = "float32"

    @property
    def subwords_folder(self) -> Path:
        """Where the subwords of the model are: beside it, if not elsewhere."""
        return Path(self.subwords) if self.subwords else Path(self.model).parent


Teacher = TfidfTeacher | TransformersTeacher | HoulsbyTeacher
