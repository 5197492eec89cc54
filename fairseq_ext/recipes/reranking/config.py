"""The experiment file of re-ranking: n-best lists of a translation experiment, and language models of its target side.

Every system is a model ``dagru_lm*``, trained once a domain, on the domain's text alone.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Annotated, ClassVar

from pydantic import Field, model_validator

from fairseq_ext.inputs.domain_names import DOMAINS_FILE, read_domain_names
from fairseq_ext.inputs.errors import InputError
from fairseq_ext.inputs.models import EMPTY_AS_DEFAULTS, LARGEST, Count, File, Section
from fairseq_ext.recipes.config import Experiment, Measuring, OptionName, OptionValue, Run, expand
from fairseq_ext.recipes.dagru import ARPA_FILE, KNESER_NEY, Ngrams, RecurrentModel
from fairseq_ext.recipes.reranking.nbest import FIRST_BEST, MODEL, MODEL_SUM, ORACLE, SCORE, WORDS

LIST_FILE = "nbest.txt"
LIST = "list"  # the row of lists that are re-ranked without a language model
_RESERVED = (LIST, KNESER_NEY, WORDS, FIRST_BEST, ORACLE, SCORE, MODEL, MODEL_SUM)


class Translations(Section):
    """The translation experiment whose system, subwords and splits are used."""

    work_dir: File
    """Its folder."""
    run: str
    """The training that translates, such as ``gad`` or ``gad@2``."""
    target_lang: str
    """The language that it translates into."""
    nbest: Annotated[int, Field(ge=2, lt=LARGEST)] = 20
    """Hypotheses of a sentence; the beam is as wide unless ``options`` say otherwise."""
    outputs: list[str] = Field(default_factory=list)
    """Of the experiment, to compare with: translations without re-ranking, of its own beam."""
    options: Annotated[dict[OptionName, OptionValue], EMPTY_AS_DEFAULTS] = Field(default_factory=dict)
    """Options of fairseq-generate."""

    @property
    def data(self) -> Path:
        """Its binarised text, with dictionaries and subwords."""
        return self.work_dir / "data-bin"

    def output(self, name: str, domain: str) -> Path:
        """An output's translation of a domain's test set."""
        return self.work_dir / "translations" / name / f"{domain}.{self.target_lang}"

    def text(self, domain: str, split: str) -> Path:
        """A domain's target side."""
        return self.work_dir / "splits" / domain / f"{split}.{self.target_lang}"

    def pieces(self, domain: str, split: str) -> Path:
        """A domain's target side in subwords."""
        return self.work_dir / "encoded" / domain / f"{split}.{self.target_lang}"


class GeneralVectors(Section):
    """General-domain vectors of the subwords: word2vec's skip-gram on the target side of all domains."""

    dim: Count = 200
    """Their width."""
    epochs: Count = 5
    """Over the text."""
    window: Count = 5
    """Subwords on either side."""


class Rerank(Measuring):
    """How weights are tuned and translations are compared."""

    restarts: Count = 20
    """Random starts of the tuning."""
    resamples: Count = 1000
    """Of the paired bootstrap."""
    max_tokens: Count = 4096
    """In a batch that language models score."""


class Model(RecurrentModel):
    """A language model, trained once a domain. Keys that are not listed are options of fairseq-train."""

    refused: ClassVar[Collection[str]] = (*RecurrentModel.refused, "seeds")


class Reranking(Experiment[Model]):
    """An experiment that re-ranks the n-best lists of a translation experiment."""

    translation: Translations
    word_vectors: GeneralVectors = GeneralVectors()
    kneser_ney: Annotated[Ngrams | None, EMPTY_AS_DEFAULTS] = None
    """n-gram models besides; none by default."""
    rerank: Annotated[Rerank, EMPTY_AS_DEFAULTS] = Rerank()

    @cached_property
    def systems(self) -> Mapping[str, Model]:
        """The language models by name, each trained once a domain."""
        return {name: system.model_copy(update={"per_domain": True}) for name, system in self.train.systems.items()}

    def runs_of(self, name: str) -> list[Run]:
        """The runs of a system, one a domain."""
        return expand(self.systems[name], self.seed, self.domains)

    @property
    def domains(self) -> list[str]:
        """The domains of the translation experiment, in order."""
        file = self.translation.data / DOMAINS_FILE
        if not file.is_file():
            raise InputError(
                f"{self.path}: translation: work_dir: {self.translation.work_dir} has no prepared data ({file}); run "
                "its experiment first, fairseq-ext run FILE"
            )
        return read_domain_names(file)

    def lm_data(self, domain: str) -> Path:
        """A domain's binarised text, and the dictionary."""
        return self.work_dir / "lm-data" / domain

    def arpa_file(self, domain: str) -> Path:
        """A domain's n-gram model."""
        return self.work_dir / KNESER_NEY / domain / ARPA_FILE

    def list_file(self, split: str) -> Path:
        """The hypotheses of a set, with the sentences of all domains in their order."""
        return self.work_dir / "nbest" / split / LIST_FILE

    @property
    def models(self) -> list[str]:
        """The language models that lists are re-ranked by."""
        return [*([KNESER_NEY] if self.kneser_ney else []), *self.systems]

    @property
    def compared_names(self) -> Sequence[str]:
        """The rows of the report but the oracle, in order."""
        return [FIRST_BEST, *self.translation.outputs, LIST, *self.models]

    @model_validator(mode="after")
    def _check_names(self) -> Reranking:
        outputs = self.translation.outputs
        given = {**dict.fromkeys(outputs, "translation: outputs"), **dict.fromkeys(self.systems, "train: systems")}
        for name, key in given.items():
            if name in _RESERVED or (name in self.systems and name in outputs):
                raise ValueError(f"{key}: {name}: is the name of another row or a feature; rename it")
        return self
