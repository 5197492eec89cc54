"""Sections of the translation experiment file: corpora, systems, decoding runs, evaluation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import (
    BeforeValidator,
    Discriminator,
    Field,
    PrivateAttr,
    Tag,
    ValidationInfo,
    model_validator,
)

from fairseq_ext.base.domain_names import check_domain_names
from fairseq_ext.base.errors import InputError
from fairseq_ext.base.fairseq_cli import option_of
from fairseq_ext.base.sections import Count, Number, OneOrMore, Section, Several
from fairseq_ext.classifiers.classifier import TfidfTeacher, TransformersTeacher
from fairseq_ext.experiments.base import Base
from fairseq_ext.experiments.config import MOST_ENTRIES, NAME_PATTERN, Entry, OptionName, OptionValue, Run, System
from fairseq_ext.experiments.metrics.corpus_metrics import DEFAULT_METRICS, TextMetric

DOMAIN_SWITCH = "JOINED"  # name of the domain-switch test set
UNIFORM = "uniform"  # value of domain-source: equal weights for all adapters
# Models with ``needs_domains``, and models that add adapters to a base model. The names of presets begin with the name
# of their model. These lists are repeated here because importing the models would load torch.
_NEED_DOMAINS = ("transformer_domain_adapter",)
_ADAPTERS = ("transformer_domain_adapter", "transformer_gated_adapter")


def as_value_error(check: Callable[..., Any], *arguments: Any) -> None:
    """Run a check, with its InputError as a ValueError for pydantic."""
    try:
        check(*arguments)
    except InputError as error:
        raise ValueError(str(error)) from None


class Corpora(Section):
    """Parallel text: a folder with files ``DOMAIN.LANG``, or sources by domain."""

    folder: str | None = None
    """Folder with files ``DOMAIN.LANG``, which may be compressed."""
    domains: dict[str, OneOrMore[str]] | None = None
    """Sources by domain. For supported forms, see docs/data.md."""
    on_bad_utf8: Literal["fail", "drop", "replace"] = "fail"
    """For a pair that is not valid UTF-8: fail, drop it, or replace its invalid bytes with U+FFFD."""
    markup: Literal["keep", "strip"] = "keep"
    """Whether to keep or strip inline markup of TMX, XLIFF and gettext messages."""

    @model_validator(mode="after")
    def _check_source(self) -> Corpora:
        if (self.folder is None) == (self.domains is None):
            raise ValueError("give either folder or domains")
        if self.domains is not None:
            as_value_error(check_domain_names, sorted(self.domains), "domains")
        return self


class TranslationBase(Base):
    """A pretrained translation model: Hugging Face's, Marian's (OPUS-MT, Firefox) or one of ``fairseq-ext import``."""

    source_lang: str | None = None
    """Source language code of the model, such as eng_Latn, if it differs from the experiment's."""
    target_lang: str | None = None
    """Target language code of the model, if it differs from the experiment's."""


class TranslationSystem(System):
    """A translation system. Keys that are not listed are options of fairseq-train."""

    needs_domain: bool | None = None
    """Whether the system needs the domain of its input; by default, decided by tags and architecture."""
    label_noise: Annotated[Number, Field(ge=0, le=1)] = 0.0
    """Share of training sentences that get a wrong label."""
    unlabelled: Several[str] = ()
    """Domains whose training sentences get no label."""

    @property
    def arch(self) -> str:
        """Architecture."""
        return str(option_of(self.options, "arch"))

    @property
    def has_tags(self) -> bool:
        """Whether its sentences begin with a domain tag."""
        return bool(option_of(self.options, "domain-tags"))

    @property
    def learns_base(self) -> bool:
        """Whether its gates learn from general text to choose the base."""
        return bool(option_of(self.options, "gate-base"))

    @property
    def has_adapters(self) -> bool:
        """Whether the system is a base model with adapters."""
        return self.arch.startswith(_ADAPTERS)

    @property
    def requires_domain(self) -> bool:
        """Whether the system needs the domain of its input."""
        implied = self.has_tags or self.arch.startswith(_NEED_DOMAINS)
        return implied if self.needs_domain is None else self.needs_domain

    @model_validator(mode="after")
    def _check_labels(self) -> TranslationSystem:
        for key in sorted({"label_noise", "unlabelled"} & self.model_fields_set):
            if not self.uses_teacher:
                raise ValueError(f"{key}: needs the classifier's labels; set uses_teacher: true")
        return self


class Output(Entry):
    """A decoding run of a system. Keys that are not listed are options of fairseq-generate."""

    system_name: str = Field(alias="system")
    """Name of the system under ``train: systems``."""
    gates: bool = False
    """Whether to write gate weights."""
    _system: TranslationSystem = PrivateAttr()

    def with_system(self, system: TranslationSystem) -> Output:
        """Return this decoding run with the system that it names."""
        output = self.model_copy()
        output._system = system
        return output

    @property
    def system(self) -> TranslationSystem:
        """The system that translates."""
        return self._system

    @property
    def domain_source(self) -> str:
        """Source of the domain, as in fairseq-generate; ``none`` if it is given or the system needs none."""
        source = str(option_of(self.options, "domain-source") or "oracle")
        is_given = option_of(self.options, "domain") or not self.system.requires_domain
        return "none" if source == "oracle" and is_given else source

    @property
    def uses_classifier(self) -> bool:
        """Whether the classifier's labels choose adapters."""
        return self.domain_source.startswith("classifier")

    @property
    def uses_oracle(self) -> bool:
        """Whether the true domain of every sentence is given."""
        return self.system.per_domain or self.domain_source == "oracle"


class Translate(Section):
    """Decoding runs."""

    common: dict[OptionName, OptionValue] = Field(default_factory=dict)
    """Defaults for all decoding runs."""
    outputs: dict[Annotated[str, Field(pattern=NAME_PATTERN)], Output] = Field(
        default_factory=dict, max_length=MOST_ENTRIES
    )
    """Decoding runs by name. Their keys include fairseq-generate options."""

    @model_validator(mode="before")
    @classmethod
    def _merge_common(cls, value: Any, info: ValidationInfo) -> Any:
        return Output.merge_common(value, "outputs", f"{(info.context or {}).get('path', '')}: translate: outputs")


class OwnTest(Section):
    """A test set of the user."""

    corpus: str
    """Corpus in one of the forms in docs/data.md."""
    domain: str | None = None
    """Domain of the whole set; none if it is unknown, or not one of the experiment's."""


class ReportOptions(Section):
    """Content of the report."""

    ablation: Several[str] = ()
    """Decoding runs of the ablation table. The first is the full system, the rest are its variants."""


def _own_test(value: Any) -> Any:
    return {"corpus": value} if isinstance(value, str) else value


class Evaluate(Section):
    """Test sets, metrics and analyses."""

    baseline: str | None = None
    """Decoding run that all other runs are compared with; by default the first."""
    compare: Several[str] = ()
    """Further decoding runs that all other runs are compared with; by default, if there are such runs, the base model
    trained further on all domains, and uniform weights."""
    resamples: Count = 1000
    """Number of resamples of the paired bootstrap."""
    metrics: OneOrMore[TextMetric] = DEFAULT_METRICS
    """Text metrics: chrF, chrF++, BLEU or TER."""
    comet: str | None = None
    """Local checkpoint of a COMET model; by default, COMET is not computed."""
    ood: dict[str, str] = Field(default_factory=dict)
    """Out-of-domain test sets: corpora by name."""
    tests: dict[str, Annotated[OwnTest, BeforeValidator(_own_test)]] = Field(default_factory=dict)
    """The user's test sets by name: a corpus, or ``corpus`` and ``domain``."""
    forgetting: bool = False
    """Whether models of one domain also translate the other domains and general text."""
    domain_switch: Annotated[int, Field(ge=0, lt=1 << 31)] = 0
    """Size of the domain-switch test set, whose sentences join two test sentences of different domains."""
    speed: Several[str] = ()
    """Decoding runs to time."""
    distance_sentences: Count = 2000
    """Maximum number of sentences per domain for distances between domains."""
    report: ReportOptions = ReportOptions()
    """Content of the report."""

    @model_validator(mode="before")
    @classmethod
    def _drop_empty(cls, value: Any) -> Any:
        """Drop empty entries, so that they have their defaults."""
        if not isinstance(value, dict):
            return value
        return {key: entry for key, entry in value.items() if entry not in (None, [], {})}

    @property
    def sets(self) -> dict[str, str | None]:
        """Domains of the sets besides held-out ones, by name; None if unknown."""
        unknown = sorted([*self.ood, *([DOMAIN_SWITCH] if self.domain_switch else [])])
        return {**dict.fromkeys(unknown), **{name: test.domain for name, test in sorted(self.tests.items())}}

    @property
    def corpora(self) -> dict[str, str]:
        """Corpora of the sets given in the file, by name."""
        return {**self.ood, **{name: test.corpus for name, test in self.tests.items()}}

    @model_validator(mode="after")
    def _check_sets(self) -> Evaluate:
        for key, names in (("ood", self.ood), ("tests", self.tests)):
            if names:
                as_value_error(check_domain_names, sorted(names), key)
            if self.domain_switch and DOMAIN_SWITCH in names:
                raise ValueError(
                    f"{key}: {DOMAIN_SWITCH} is the name of the domain-switch test set; choose another name"
                )
        for name in self.tests.keys() & self.ood.keys():
            raise ValueError(f"tests: {name}: is also under ood; choose another name")
        return self


class OutputRun(NamedTuple):
    """An output, with one run of its system."""

    output: Output
    run: Run

    @property
    def name(self) -> str:
        """Name, also of the directory: ``gad``, ``gad@2`` for one of several seeds, ``ft@LAW`` for a domain."""
        return self.output.name + self.run.name.removeprefix(self.run.system.name)


def _backend_of(value: Any) -> str:
    """Return the pydantic tag of the classifier in a section ``teacher``."""
    backend = value.get("backend", "tfidf") if isinstance(value, dict) else getattr(value, "backend", "tfidf")
    return f"[{backend}]"


AnyTeacher = Annotated[
    Annotated[TfidfTeacher, Tag("[tfidf]")] | Annotated[TransformersTeacher, Tag("[transformers]")],
    Discriminator(
        _backend_of,
        custom_error_type="backend",
        custom_error_message="backend: choose one of tfidf, transformers",
    ),
]
