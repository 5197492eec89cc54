"""Sections of the experiment file of translation: corpora, systems, decoding runs, evaluation."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Annotated, Any, ClassVar, Literal, NamedTuple

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Discriminator,
    Field,
    PrivateAttr,
    Tag,
    ValidationInfo,
    model_validator,
)

from fairseq_ext.classifiers.classifier import TfidfTeacher, TransformersTeacher
from fairseq_ext.engine.fairseq_cli import option_of
from fairseq_ext.inputs.domain_names import check_domain_names
from fairseq_ext.inputs.errors import InputError
from fairseq_ext.inputs.models import Count, File, Number, OneOrMore, Section, Several
from fairseq_ext.metrics.corpus_metrics import DEFAULT_METRICS, text_metric_names
from fairseq_ext.recipes.config import MOST_ENTRIES, NAME_PATTERN, Entry, OptionName, OptionValue, Run, System

DOMAIN_SWITCH = "JOINED"  # name of the domain-switch test set
UNIFORM = "uniform"  # of domain-source: the same weight for every adapter
# Models whose ``needs_domains`` holds, and all that add adapters to a base model. Names of presets begin with their
# model's. The models themselves cannot be asked without loading torch.
_NEED_DOMAINS = ("transformer_domain_adapter",)
_ADAPTERS = ("transformer_domain_adapter", "transformer_gated_adapter")


def as_value_error(check: Callable[..., Any], *arguments: Any) -> None:
    """Make a check of a library one of a validator."""
    try:
        check(*arguments)
    except InputError as error:
        raise ValueError(str(error)) from None


class Corpora(Section):
    """Parallel text: a folder of files ``DOMAIN.LANG``, or sources by domain."""

    folder: str | None = None
    """Holds ``DOMAIN.LANG``, plain or compressed alike."""
    domains: dict[str, OneOrMore[str]] | None = None
    """By domain its sources; their forms are in docs/data.md."""
    on_bad_utf8: Literal["fail", "drop", "replace"] = "fail"
    """What becomes of a pair that is no UTF-8: stop, leave it out, or replace its bytes by U+FFFD."""
    markup: Literal["keep", "strip"] = "keep"
    """Inline markup of TMX, XLIFF and gettext messages: leave it in the text, or remove it."""

    @model_validator(mode="after")
    def _check_source(self) -> Corpora:
        if (self.folder is None) == (self.domains is None):
            raise ValueError("give either folder or domains")
        if self.domains is not None:
            as_value_error(check_domain_names, sorted(self.domains), "domains")
        return self


class Base(Section):
    """A model that was trained elsewhere: it is the system ``mix``, which no training makes then."""

    folder: File = Field(alias="import")
    """A translation model in Hugging Face's files, or what ``fairseq-ext import hf`` made of one."""
    source_lang: str | None = None
    """What the model calls the language to translate from, such as eng_Latn, where that is not the experiment's."""
    target_lang: str | None = None
    """What it calls the language to translate into."""


class TranslationSystem(System):
    """A system that translates."""

    needs_domain: bool | None = None
    """Whether it needs the domain of what it translates; by default, tags and architecture decide."""
    label_noise: Annotated[Number, Field(ge=0, le=1)] = 0.0
    """Share of the training sentences whose label is made wrong."""
    unlabelled: Several[str] = ()
    """Domains whose training sentences have no label."""

    @property
    def arch(self) -> str:
        """Its architecture."""
        return str(option_of(self.options, "arch"))

    @property
    def has_tags(self) -> bool:
        """Whether a domain tag opens its sentences."""
        return bool(option_of(self.options, "domain-tags"))

    @property
    def has_adapters(self) -> bool:
        """Whether it is a base model with adapters."""
        return self.arch.startswith(_ADAPTERS)

    @property
    def requires_domain(self) -> bool:
        """Whether it needs the domain of what it translates."""
        implied = self.has_tags or self.arch.startswith(_NEED_DOMAINS)
        return implied if self.needs_domain is None else self.needs_domain

    @model_validator(mode="after")
    def _check_labels(self) -> TranslationSystem:
        for key in sorted({"label_noise", "unlabelled"} & self.model_fields_set):
            if not self.uses_teacher:
                raise ValueError(f"{key}: changes the classifier's labels; write uses_teacher: true")
        return self


class Output(Entry):
    """A decoding run: a way to use a system. Keys that are not listed are options of fairseq-generate."""

    system_name: str = Field(alias="system")
    """The system's name under ``train: systems``."""
    gates: bool = False
    """Whether the gates' weights are written."""
    _system: TranslationSystem = PrivateAttr()

    @property
    def system(self) -> TranslationSystem:
        """What translates."""
        return self._system

    @property
    def domain_source(self) -> str:
        """Where the domain comes from, as in fairseq-generate's option; ``none`` also for what needs none."""
        source = str(option_of(self.options, "domain-source") or "oracle")
        is_given = option_of(self.options, "domain") or not self.system.requires_domain
        return "none" if source == "oracle" and is_given else source

    @property
    def uses_classifier(self) -> bool:
        """Whether the classifier's labels choose the adapters."""
        return self.domain_source.startswith("classifier")

    @property
    def uses_oracle(self) -> bool:
        """Whether it is given the true domain of every sentence."""
        return self.system.per_domain or self.domain_source == "oracle"


class Translate(Section):
    """Decoding runs."""

    removed_keys: ClassVar[Mapping[str, str]] = {"examples": "translate lines by fairseq-ext translate"}

    common: dict[OptionName, OptionValue] = Field(default_factory=dict)
    """What holds for every decoding run that does not say otherwise."""
    outputs: dict[Annotated[str, Field(pattern=NAME_PATTERN)], Output] = Field(
        default_factory=dict, max_length=MOST_ENTRIES
    )
    """Decoding runs by name; options of fairseq-generate are among their keys."""

    @model_validator(mode="before")
    @classmethod
    def _merge_common(cls, value: Any, info: ValidationInfo) -> Any:
        return Output.merge_common(value, "outputs", f"{(info.context or {}).get('path', '')}: translate: outputs")


class OwnTest(Section):
    """A test set of the user's own."""

    corpus: str
    """In one of the forms of a corpus, see docs/data.md."""
    domain: str | None = None
    """The domain of all of it; none where it is not known, or where it is another one."""


class ReportOptions(Section):
    """What the report shows."""

    removed_keys: ClassVar[Mapping[str, str]] = {
        "reading": "write about results under docs/results",
        "examples": "translations/ has all translations",
    }

    ablation: Several[str] = ()
    """Decoding runs of the table of the ablation. The first is the whole system, the others are its variants."""


def _own_test(value: Any) -> Any:
    return {"corpus": value} if isinstance(value, str) else value


def _metric(name: str) -> str:
    if name not in text_metric_names():
        raise ValueError(f"{name!r} is unknown; choose one of {', '.join(text_metric_names())}")
    return name


class Evaluate(Section):
    """What is measured beyond the test sets, and how."""

    removed_keys: ClassVar[Mapping[str, str]] = {"distance_model": "distances are measured on TF-IDF"}
    renamed_keys: ClassVar[Mapping[str, str]] = {"joined": "domain_switch"}

    baseline: str | None = None
    """The decoding run that all others are compared with; by default the first."""
    compare: Several[str] = ()
    """Further decoding runs that all others are compared with; by default the base model trained further on all
    domains, and uniform weights, where there are such runs."""
    resamples: Count = 1000
    """Of the paired bootstrap."""
    metrics: OneOrMore[Annotated[str, AfterValidator(_metric)]] = DEFAULT_METRICS
    """Computed from text: chrF, chrF++, BLEU or TER."""
    comet: str | None = None
    """Local checkpoint of a COMET model; none for no COMET."""
    ood: dict[str, str] = Field(default_factory=dict)
    """Out-of-domain test sets by name, each a corpus."""
    tests: dict[str, Annotated[OwnTest, BeforeValidator(_own_test)]] = Field(default_factory=dict)
    """The user's own test sets by name: a corpus, or ``corpus`` and ``domain``."""
    domain_switch: Annotated[int, Field(ge=0, lt=1 << 31)] = 0
    """How many sentences of the domain-switch test set to make, each of two test sentences of different domains."""
    speed: Several[str] = ()
    """Decoding runs to time."""
    distance_sentences: Count = 2000
    """Most sentences a domain for the distances between domains."""
    report: ReportOptions = ReportOptions()
    """What the report shows."""

    @model_validator(mode="before")
    @classmethod
    def _drop_empty(cls, value: Any) -> Any:
        """An empty entry means its default."""
        if not isinstance(value, dict):
            return value
        return {key: entry for key, entry in value.items() if entry not in (None, [], {})}

    @property
    def sets(self) -> dict[str, str | None]:
        """The domain of every set beside the held-out ones, by name; None where it is not known."""
        unknown = sorted([*self.ood, *([DOMAIN_SWITCH] if self.domain_switch else [])])
        return {**dict.fromkeys(unknown), **{name: test.domain for name, test in sorted(self.tests.items())}}

    @property
    def corpora(self) -> dict[str, str]:
        """By name, the corpora of the sets that are given by the file."""
        return {**self.ood, **{name: test.corpus for name, test in self.tests.items()}}

    @model_validator(mode="after")
    def _check_sets(self) -> Evaluate:
        for key, names in (("ood", self.ood), ("tests", self.tests)):
            if names:
                as_value_error(check_domain_names, sorted(names), key)
            if self.domain_switch and DOMAIN_SWITCH in names:
                raise ValueError(f"{key}: {DOMAIN_SWITCH} is the domain-switch test set; choose another name")
        for name in self.tests.keys() & self.ood.keys():
            raise ValueError(f"tests: {name}: is also under ood; choose another name")
        return self


class OutputRun(NamedTuple):
    """A decoding run with one run of its system."""

    output: Output
    run: Run

    @property
    def name(self) -> str:
        """Of the translations and their directory: ``gad``, ``gad@2`` of several seeds, ``ft@LAW`` of a domain."""
        return self.output.name + self.run.name.removeprefix(self.run.system.name)


def _backend_of(value: Any) -> str:
    """The tag of the classifier of a section ``teacher``."""
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
