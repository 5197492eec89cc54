"""The experiment file of recurrent language models: text and word vectors to perplexities, with an n-gram baseline."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Annotated, ClassVar, Literal

from pydantic import Field, model_validator

from fairseq_ext.engine.fairseq_cli import option_of
from fairseq_ext.inputs.models import EMPTY_AS_DEFAULTS, File, Section
from fairseq_ext.recipes.config import Experiment, Measuring
from fairseq_ext.recipes.dagru import KNESER_NEY, Ngrams, RecurrentModel, combination_of, needs_vectors

DATA_DIR, TEXT_DIR, VECTORS_DIR = "data-bin", "text", "word-vectors"
COUNTS_FILE = "counts.json"


class Corpora(Section):
    """Texts of words separated by blanks, one sentence a line."""

    train: File
    valid: File
    """Checkpoints are chosen by it."""
    test: File
    vocabulary: Annotated[int, Field(ge=0)] = 0
    """How many words models know: the most frequent ones of the training text and ``<unk>``; 0 for all."""


class WordVectors(Section):
    """General-domain word vectors."""

    file: File
    """GloVe text, or word2vec text or binary."""
    missing: Literal["zero", "mean"] = "zero"
    """The vector of a word that is not in the file: zero, or the mean of those found."""


class Model(RecurrentModel):
    """A recurrent language model. Keys that are not listed are options of fairseq-train."""

    refused: ClassVar[Collection[str]] = (*RecurrentModel.refused, "per_domain")


class Recurrent(Experiment[Model]):
    """An experiment with recurrent language models; its systems are models ``dagru_lm*``."""

    corpora: Corpora
    word_vectors: WordVectors | None = None
    """For every system that reads word vectors and names no file of its own."""
    kneser_ney: Annotated[Ngrams | None, EMPTY_AS_DEFAULTS] = None
    """The n-gram baseline; none by default."""
    evaluate: Annotated[Measuring, EMPTY_AS_DEFAULTS] = Measuring()

    @cached_property
    def systems(self) -> Mapping[str, Model]:
        """The systems by name; those that need word vectors have their options."""
        return {name: self._with_vectors(system) for name, system in self.train.systems.items()}

    @property
    def compared_names(self) -> Sequence[str]:
        """The systems and the n-gram baseline."""
        return [*self.systems, *([KNESER_NEY] if self.kneser_ney else [])]

    def text(self, split: str) -> Path:
        """The prepared text of a set."""
        return self.work_dir / TEXT_DIR / f"{split}.txt"

    @cached_property
    def vector_files(self) -> Sequence[str]:
        """The files of word vectors that systems read, each once."""
        files = [option_of(system.options, "word-vectors") for system in self.systems.values()]
        return list(dict.fromkeys(file for file in files if file))

    def vectors_file(self, file: str) -> Path:
        """The vectors of the vocabulary's words out of one of these files."""
        return self.work_dir / VECTORS_DIR / f"{self.vector_files.index(file) + 1}.bin"

    @model_validator(mode="after")
    def _check_vectors(self) -> Recurrent:
        for name, system in self.systems.items():
            if needs_vectors(system) and not isinstance(option_of(system.options, "word-vectors"), str):
                where = f"train: systems: {name}: combination: {combination_of(system)}"
                raise ValueError(f"{where} needs word_vectors; give their file")
        return self

    def _with_vectors(self, system: Model) -> Model:
        vectors, options = self.word_vectors, system.options
        if vectors is None or not needs_vectors(system) or option_of(options, "word-vectors"):
            return system
        added = {"word-vectors": str(vectors.file), "missing-vectors": vectors.missing}
        return system.model_copy(update={"options": {**added, **options}})
