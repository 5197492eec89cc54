"""Options of the domain classifiers: the section ``teacher`` of an experiment file."""

from __future__ import annotations

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
