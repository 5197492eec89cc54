"""Experiment file of recurrent language models: text, word vectors, systems and an n-gram baseline."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Annotated, ClassVar, Literal

from pydantic import Field, model_validator

from fairseq_ext.base.fairseq_cli import option_of
from fairseq_ext.base.sections import EMPTY_AS_DEFAULTS, File, Section
from fairseq_ext.experiments.config import Experiment, Measuring
from fairseq_ext.experiments.dagru import KNESER_NEY, Ngrams, RecurrentModel, combination_of, needs_vectors

DATA_DIR, TEXT_DIR, VECTORS_DIR = "data-bin", "text", "word-vectors"
COUNTS_FILE = "counts.json"


class Corpora(Section):
    """Texts of words separated by spaces, one sentence per line."""

    train: File
    valid: File
    """Text used to select checkpoints."""
    test: File
    vocabulary: Annotated[int, Field(ge=0)] = 0
    """Vocabulary size: the most frequent words of the training text and ``<unk>``; 0 for all words."""


class WordVectors(Section):
    """General-domain word vectors."""

    file: File
    """File in GloVe text format, or in word2vec text or binary format."""
    missing: Literal["zero", "mean"] = "zero"
    """Vector for words that are not in the file: zero, or the mean of the vectors found."""


class Model(RecurrentModel):
    """A recurrent language model. Keys that are not listed are options of fairseq-train."""

    refused: ClassVar[Collection[str]] = (*RecurrentModel.refused, "per_domain")


class Recurrent(Experiment[Model]):
    """Experiment with recurrent language models. Its systems are ``dagru_lm*`` models."""

    corpora: Corpora
    word_vectors: WordVectors | None = None
    """Default for systems that use word vectors and do not give a file."""
    kneser_ney: Annotated[Ngrams | None, EMPTY_AS_DEFAULTS] = None
    """n-gram baseline; none by default."""
    evaluate: Annotated[Measuring, EMPTY_AS_DEFAULTS] = Measuring()

    def listed_systems(self) -> Mapping[str, Model]:
        """Return the systems, with options for word vectors added where needed."""
        return {name: self._with_vectors(system) for name, system in self.train.systems.items()}

    @property
    def compared_names(self) -> Sequence[str]:
        """Names of the systems and of the n-gram baseline."""
        return [*self.systems, *([KNESER_NEY] if self.kneser_ney else [])]

    def text(self, split: str) -> Path:
        """Return the prepared text of a split."""
        return self.work_dir / TEXT_DIR / f"{split}.txt"

    @cached_property
    def vector_files(self) -> Sequence[str]:
        """Distinct files of word vectors that the systems use."""
        files = [option_of(system.options, "word-vectors") for system in self.systems.values()]
        return list(dict.fromkeys(file for file in files if file))

    def vectors_file(self, file: str) -> Path:
        """Return the file of the vectors in ``file`` for the words of the vocabulary."""
        return self.work_dir / VECTORS_DIR / f"{self.vector_files.index(file) + 1}.bin"

    @model_validator(mode="after")
    def _check_vectors(self) -> Recurrent:
        for name, system in self.systems.items():
            if needs_vectors(system) and not isinstance(option_of(system.options, "word-vectors"), str):
                where = f"train: systems: {name}: combination: {combination_of(system)}"
                raise ValueError(f"{where} needs word vectors; set word_vectors: file")
        return self

    def _with_vectors(self, system: Model) -> Model:
        vectors, options = self.word_vectors, system.options
        if vectors is None or not needs_vectors(system) or option_of(options, "word-vectors"):
            return system
        added = {"word-vectors": str(vectors.file), "missing-vectors": vectors.missing}
        return system.model_copy(update={"options": {**added, **options}})
