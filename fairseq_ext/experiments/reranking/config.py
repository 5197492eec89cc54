"""Experiment file of re-ranking: n-best lists of a translation experiment, and language models of its target side.

Each system is a ``dagru_lm*`` model, trained once per domain, only on text of that domain.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Annotated, ClassVar

from pydantic import Field, model_validator

from fairseq_ext.base.domain_names import DOMAINS_FILE, read_domain_names
from fairseq_ext.base.errors import InputError
from fairseq_ext.base.sections import EMPTY_AS_DEFAULTS, LARGEST, Count, File, Section
from fairseq_ext.experiments.config import Experiment, Measuring, OptionName, OptionValue, Run, expand
from fairseq_ext.experiments.dagru import KNESER_NEY, NGRAM_FILE, Ngrams, RecurrentModel
from fairseq_ext.experiments.reranking.nbest import FIRST_BEST, MODEL, MODEL_SUM, ORACLE, WORDS

LIST_FILE = "nbest.txt"
LIST = "list"  # row of lists re-ranked without a language model
_RESERVED = (LIST, KNESER_NEY, WORDS, FIRST_BEST, ORACLE, MODEL, MODEL_SUM)


class Translations(Section):
    """The translation experiment that provides the system, subwords and splits."""

    work_dir: File
    """Working directory of the experiment."""
    run: str
    """Training run that translates, such as ``gad`` or ``gad@2``."""
    target_lang: str
    """Target language."""
    nbest: Annotated[int, Field(ge=2, lt=LARGEST)] = 20
    """Number of hypotheses per sentence, and the beam size unless ``options`` set another."""
    outputs: list[str] = Field(default_factory=list)
    """Outputs of the experiment to compare with: translations without re-ranking, with the experiment's beam size."""
    options: Annotated[dict[OptionName, OptionValue], EMPTY_AS_DEFAULTS] = Field(default_factory=dict)
    """Options of fairseq-generate."""

    @property
    def data(self) -> Path:
        """Directory of the binarised text, dictionaries and subwords."""
        return self.work_dir / "data-bin"

    def output(self, name: str, domain: str) -> Path:
        """Return the file of an output's translation of a domain's test set."""
        return self.work_dir / "translations" / name / f"{domain}.{self.target_lang}"

    def text(self, domain: str, split: str) -> Path:
        """Return the file of a domain's target side."""
        return self.work_dir / "splits" / domain / f"{split}.{self.target_lang}"

    def pieces(self, domain: str, split: str) -> Path:
        """Return the file of a domain's target side in subwords."""
        return self.work_dir / "encoded" / domain / f"{split}.{self.target_lang}"


class GeneralVectors(Section):
    """General-domain vectors of subwords: word2vec skip-gram on the target side of all domains."""

    dim: Count = 200
    """Dimension of the vectors."""
    epochs: Count = 5
    """Number of training epochs."""
    window: Count = 5
    """Number of context subwords on each side."""


class Rerank(Measuring):
    """Options for tuning weights and comparing translations."""

    restarts: Count = 20
    """Number of random starts of the tuning."""
    resamples: Count = 1000
    """Number of resamples of the paired bootstrap."""
    max_tokens: Count = 4096
    """Maximum number of tokens in a batch for scoring with language models."""


class Model(RecurrentModel):
    """A language model, trained once per domain. Keys that are not listed are options of fairseq-train."""

    refused: ClassVar[Collection[str]] = (*RecurrentModel.refused, "seeds")


class Reranking(Experiment[Model]):
    """Experiment that re-ranks the n-best lists of a translation experiment."""

    translation: Translations
    word_vectors: GeneralVectors = GeneralVectors()
    kneser_ney: Annotated[Ngrams | None, EMPTY_AS_DEFAULTS] = None
    """Additional n-gram models; none by default."""
    rerank: Annotated[Rerank, EMPTY_AS_DEFAULTS] = Rerank()

    def listed_systems(self) -> Mapping[str, Model]:
        """Return the language models, each trained once per domain."""
        return {name: system.model_copy(update={"per_domain": True}) for name, system in self.train.systems.items()}

    def runs_of(self, name: str) -> list[Run]:
        """Return the runs of a system, one per domain."""
        return expand(self.systems[name], self.seed, self.domains)

    @property
    def domains(self) -> list[str]:
        """Domains of the translation experiment, in order."""
        file = self.translation.data / DOMAINS_FILE
        if not file.is_file():
            raise InputError(
                f"{self.path}: translation: work_dir: {self.translation.work_dir} has no prepared data ({file} not "
                "found); run its experiment first: fairseq-ext run FILE"
            )
        return read_domain_names(file)

    def lm_data(self, domain: str) -> Path:
        """Return the directory of a domain's binarised text and the dictionary."""
        return self.work_dir / "lm-data" / domain

    def ngram_file(self, domain: str) -> Path:
        """Return the file of a domain's n-gram model."""
        return self.work_dir / KNESER_NEY / domain / NGRAM_FILE

    def list_file(self, split: str) -> Path:
        """Return the n-best list of a split. It contains all domains, in the order of ``domains``."""
        return self.work_dir / "nbest" / split / LIST_FILE

    @property
    def models(self) -> list[str]:
        """Names of the language models used for re-ranking."""
        return [*([KNESER_NEY] if self.kneser_ney else []), *self.systems]

    @property
    def compared_names(self) -> Sequence[str]:
        """Rows of the report except the oracle, in order."""
        return [FIRST_BEST, *self.translation.outputs, LIST, *self.models]

    @model_validator(mode="after")
    def _check_names(self) -> Reranking:
        outputs = self.translation.outputs
        keys = {**dict.fromkeys(outputs, "translation: outputs"), **dict.fromkeys(self.systems, "train: systems")}
        for name, key in keys.items():
            if name in _RESERVED or (name in self.systems and name in outputs):
                raise ValueError(f"{key}: {name}: is already the name of a row or a feature; rename it")
        return self
