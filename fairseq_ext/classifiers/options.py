"""Options of the domain classifiers: the section ``teacher`` of an experiment file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from fairseq_ext.inputs.models import LARGEST, Count, Number, Section

# Of more training sentences than this a classifier is trained on a sample, the same share of every domain.
MAX_SENTENCES = 500_000
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


class _TrainedOptions(_Options):
    model: str
    batch_size: Count = 32
    device: Literal["auto", "cpu", "cuda"] = "auto"


class TransformersTeacher(_TrainedOptions):
    """Options of the fine-tuned classifier; see :mod:`fairseq_ext.classifiers.transformers_classifier`."""

    backend: Literal["transformers"] = "transformers"
    epochs: _Positive = 3.0
    learning_rate: _Positive = 2e-5
    max_length: Count = 128
    precision: Literal["auto", "float32", "bfloat16"] = "auto"


class HoulsbyTeacher(_TrainedOptions):
    """Options of adapters on a frozen encoder; see :mod:`fairseq_ext.classifiers.houlsby_classifier`."""

    backend: Literal["houlsby"] = "houlsby"
    subwords: str | None = None
    """The folder of the model's subwords, if it is not the model's."""
    epochs: Count = 3
    learning_rate: _Positive = 1e-3
    bottleneck_dim: Count = 64
    precision: Literal["auto", "float32", "bfloat16"] = "float32"

    @property
    def subwords_folder(self) -> Path:
        """Where the subwords of the model are: beside it, if not elsewhere."""
        return Path(self.subwords) if self.subwords else Path(self.model).parent


Teacher = TfidfTeacher | TransformersTeacher | HoulsbyTeacher
