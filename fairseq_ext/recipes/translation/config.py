"""The experiment file of translation: corpora, systems with and without adapters, decoding runs, evaluation."""

from __future__ import annotations

import fnmatch
import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

from pydantic import (
    BeforeValidator,
    Discriminator,
    Field,
    PrivateAttr,
    Tag,
    ValidationInfo,
    field_validator,
    model_validator,
)

from fairseq_ext.cleaning.clean import Cleaning
from fairseq_ext.corpora.entries import folder_entries
from fairseq_ext.corpora.languages import check_language
from fairseq_ext.corpora.split import Split
from fairseq_ext.corpora.subwords import Subwords
from fairseq_ext.engine.fairseq_cli import option_of
from fairseq_ext.inputs.domain_names import DOMAINS_FILE, check_domain_names, read_domain_names
from fairseq_ext.inputs.errors import InputError
from fairseq_ext.inputs.models import (
    Count,
    File,
    Number,
    OneOrMore,
    Section,
    Several,
)
from fairseq_ext.metrics.corpus_metrics import DEFAULT_METRICS, text_metric_names
from fairseq_ext.recipes.config import (
    MOST_ENTRIES,
    NAME_PATTERN,
    Entry,
    Experiment,
    OptionName,
    OptionValue,
    Run,
    System,
    Train,
    expand,
    named_run,
)
from fairseq_ext.recipes.registry import load_as
from fairseq_ext.teacher.options import HoulsbyTeacher, TfidfTeacher, TransformersTeacher

MIX = "mix"  # the system that is the base, where a file gives one
DOMAIN_SWITCH = "JOINED"  # name of the domain-switch test set
AVERAGE = "AVG"  # a column of the tables, so no set may have this name
UNIFORM, _FORMER_UNIFORM = "uniform", "even"  # of domain-source: the same weight for every adapter
# Models whose ``needs_domains`` holds, and all that add adapters to a base model. Names of presets begin with their
# model's. The models themselves cannot be asked without loading torch.
_NEED_DOMAINS = ("transformer_domain_adapter",)
_ADAPTERS = ("transformer_domain_adapter", "transformer_gated_adapter")


def _as_value_error(check: Callable[..., Any], *arguments: Any) -> None:
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
            _as_value_error(check_domain_names, sorted(self.domains), "domains")
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
            if option_of(self.options, "gate-target") == "domain":
                raise ValueError(f"{key}: with gate-target domain no label is learnt; take one of them out")
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
    def in_file(self) -> Mapping[str, Any]:
        """What the file says, ``common`` included; finished translations are recognised by it."""
        gates = {"gates": self.gates} if "gates" in self.model_fields_set else {}
        return {**self.options, **gates, "system": self.system_name}

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

    def can_translate(self, domain: str | None) -> bool:
        """Whether it can translate text outside of the data directory: all of one domain, or of no known one.

        Such text is typed. Typed lines can name a domain, but no weights.
        """
        return self.domain_source != "classifier-soft" and (domain is not None or not self.uses_oracle)

    @model_validator(mode="after")
    def _check_source(self) -> Output:
        if "@" in self.system_name:
            raise ValueError(f"system: give the system's name, not that of its run {self.system_name!r}")
        for name in self.options:
            if name.replace("_", "-") == "domain-source" and self.options[name] == _FORMER_UNIFORM:
                print(f"{self.place('domain-source')}: {_FORMER_UNIFORM} is now {UNIFORM}", file=sys.stderr)
                self.options[name] = UNIFORM
        return self


class Translate(Section):
    """Decoding runs."""

    common: dict[OptionName, OptionValue] = Field(default_factory=dict)
    """What holds for every decoding run that does not say otherwise."""
    outputs: dict[Annotated[str, Field(pattern=NAME_PATTERN)], Output] = Field(
        default_factory=dict, max_length=MOST_ENTRIES
    )
    """Decoding runs by name; options of fairseq-generate are among their keys."""
    examples: dict[str, Annotated[list[str], Field(min_length=1)]] = Field(default_factory=dict)
    """Lines to translate and show, by decoding run."""

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
    """What the report shows; decoding runs are names or patterns such as ``gad-*``."""

    removed_keys: ClassVar[Mapping[str, str]] = {
        "reading": "write about results under docs/results",
        "examples": "translations/ has all translations",
    }

    main: Several[str] = ()
    """Decoding runs of the main tables; by default all but the variants under ``ablation``."""
    ablation: Several[str] = ()
    """Decoding runs of the table of the ablation. The first is the whole system, the others are its variants."""


def _own_test(value: Any) -> Any:
    return {"corpus": value} if isinstance(value, str) else value


class Evaluate(Section):
    """What is measured beyond the test sets, and how."""

    renamed_keys: ClassVar[Mapping[str, str]] = {"joined": "domain_switch"}

    baseline: str | None = None
    """The decoding run that all others are compared with; by default the first."""
    compare: Several[str] = ()
    """Further decoding runs that all others are compared with; by default the base model trained further on all
    domains, and uniform weights, where there are such runs."""
    resamples: Count = 1000
    """Of the paired bootstrap."""
    metrics: OneOrMore[str] = DEFAULT_METRICS
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
    distance_model: str | None = None
    """Folder of a Hugging Face encoder for the distances between domains; none for TF-IDF."""
    distance_sentences: Count = 2000
    """Most sentences a domain for these distances."""
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
        reserved = {AVERAGE: "a column of the tables"}
        if self.domain_switch:
            reserved[DOMAIN_SWITCH] = "the domain-switch test set"
        for key, names in (("ood", self.ood), ("tests", self.tests)):
            if names:
                _as_value_error(check_domain_names, sorted(names), key)
            for name in reserved.keys() & names.keys():
                raise ValueError(f"{key}: {name} is {reserved[name]}; choose another name")
        for name in self.tests:
            if name in self.ood:
                raise ValueError(f"tests: {name}: is also under ood; choose another name")
        return self

    @field_validator("metrics")
    @classmethod
    def _check_metrics(cls, names: tuple[str, ...]) -> tuple[str, ...]:
        for name in names:
            if name == "COMET":
                raise ValueError("COMET needs a model; name that under evaluate: comet")
            if name not in text_metric_names():
                raise ValueError(f"{name!r} is unknown; choose one of {', '.join(text_metric_names())}")
        return names


@dataclass(frozen=True)
class OutputRun:
    """A decoding run with one run of its system.

    Attributes:
        output: the decoding run.
        run: the run of its system that translates.
    """

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
    Annotated[TfidfTeacher, Tag("[tfidf]")]
    | Annotated[TransformersTeacher, Tag("[transformers]")]
    | Annotated[HoulsbyTeacher, Tag("[houlsby]")],
    Discriminator(
        _backend_of,
        custom_error_type="backend",
        custom_error_message="backend: choose one of tfidf, transformers, houlsby",
    ),
]


class Translation(Experiment[TranslationSystem]):
    """An experiment with translation systems of several domains."""

    source_lang: str
    """Language to translate from, as in the names of files."""
    target_lang: str
    """Language to translate into."""
    corpora: Corpora
    cleaning: Cleaning = Field(default=Cleaning(), alias="clean")
    split: Split = Split()
    base: Base | None = None
    """The model to start from, with its own subwords, in the place of training one."""
    subwords: Subwords = Subwords()
    teacher: AnyTeacher = TfidfTeacher()
    """The domain classifier, whose labels gates learn."""
    train: Train[TranslationSystem] = Field(default_factory=Train[TranslationSystem])
    translate: Translate = Translate()
    evaluate: Evaluate = Evaluate()

    @property
    def langs(self) -> tuple[str, str]:
        """Source and target language."""
        return self.source_lang, self.target_lang

    @property
    def subwords_dir(self) -> Path:
        """Where the subwords are: the experiment's own, its base's, or those that it reuses."""
        if self.base:
            return self.work_dir / "systems" / MIX / "vocabulary"
        return Path(self.subwords.reuse) if self.subwords.reuse else self.work_dir / "subwords"

    @property
    def domains(self) -> list[str]:
        """The domains, in order. If a folder gives them, it must be readable."""
        if self.corpora.domains is not None:
            return sorted(self.corpora.domains)
        # Where models are trained, the corpora need not be.
        binarised = self.work_dir / "data-bin" / DOMAINS_FILE
        if binarised.is_file():
            return read_domain_names(binarised)
        return sorted(folder_entries(Path(self.corpora.folder or ""), self.langs))

    # Systems and their runs

    @model_validator(mode="before")
    @classmethod
    def _add_base(cls, content: Any) -> Any:
        """Let the base be a system like the others; its options are none of ``common``."""
        train = content.get("train") or {}
        if not content.get("base") or not isinstance(train, dict) or not isinstance(train.get("systems") or {}, dict):
            return content
        systems = train.get("systems") or {}
        if MIX in systems:
            raise ValueError(f"train: systems: {MIX}: is the base; give what trains it further another name")
        none = dict.fromkeys(TranslationSystem.keys() - {"name", "options", "place"})
        return {**content, "train": {**train, "systems": {MIX: {**none, "arch": "transformer"}, **systems}}}

    @model_validator(mode="after")
    def _check_base(self) -> Translation:
        if self.base is None:
            return self
        if self.subwords.model_fields_set:
            raise ValueError("subwords: the base has its own; take this section out")
        options = self.train.systems[MIX].options
        options.clear()
        options["arch"] = "transformer"
        return self

    def is_base(self, name: str) -> bool:
        """Whether a system is the base that was trained elsewhere."""
        return self.base is not None and name == MIX

    def runs_of(self, name: str) -> list[Run]:
        """The runs of a system, or the one run of this name."""
        where = f"{self.path}: train: systems"
        system_name, separator, _ = name.partition("@")
        if system_name not in self.systems:
            raise InputError(f"{where}: no {system_name!r}; there are {_listed(self.systems)}")
        system = self.systems[system_name]
        runs = expand(system, self.seed, self.domains if system.per_domain else ())
        return [named_run(runs, name, f"{where}: {system_name}")] if separator else runs

    # The base model and its control

    def base_of(self, name: str) -> str | None:
        """The base model of a system with adapters; None for other systems, and if it is none of the experiment."""
        if not self.systems[name].has_adapters:
            return None
        start = self.systems[name].start
        while start is not None and self.systems[start].has_adapters:
            start = self.systems[start].start
        return start

    @cached_property
    def base_systems(self) -> list[str]:
        """The base models of systems with adapters, in the order of the file."""
        found = {self.base_of(name) for name in self.systems}
        return [name for name in self.systems if name in found]

    @cached_property
    def continued_systems(self) -> dict[str, str]:
        """The controls: by name, the base model that each of them trains further on all domains.

        They show what further training gains without adapters.
        """
        return {
            name: system.start
            for name, system in self.systems.items()
            if system.start in self.base_systems
            and system.arch == self.systems[system.start].arch
            and not system.per_domain
            and option_of(system.options, "train-domains") is None
            and system.has_tags == self.systems[system.start].has_tags
        }

    # Outputs

    @property
    def outputs(self) -> Mapping[str, Output]:
        """The decoding runs by name."""
        return self.translate.outputs

    def output_runs(self, name: str) -> list[OutputRun]:
        """The models' runs of a decoding run, or the one of this name."""
        output_name, separator, _ = name.partition("@")
        if output_name not in self.outputs:
            raise InputError(f"{self.path}: translate: no output {output_name!r}; there are {_listed(self.outputs)}")
        output = self.outputs[output_name]
        runs = [OutputRun(output, run) for run in self.runs_of(output.system.name)]
        where = f"{self.path}: translate: outputs: {output_name}"
        return [named_run(runs, name, where)] if separator else runs

    def all_output_runs(self) -> list[OutputRun]:
        """The decoding runs of all outputs, in the order of the file."""
        return [run for name in self.outputs for run in self.output_runs(name)]

    @property
    def gated_runs(self) -> list[str]:
        """The decoding runs on all domains that write the gates' weights."""
        return [run.name for run in self.all_output_runs() if run.output.gates and run.run.domain is None]

    @cached_property
    def plain_outputs(self) -> list[str]:
        """The decoding runs of base models and of their controls."""
        plain = {*self.base_systems, *self.continued_systems}
        return [name for name, output in self.outputs.items() if output.system.name in plain]

    @cached_property
    def ablation(self) -> list[str]:
        """The decoding runs of the table of the ablation."""
        return self._chosen(self.evaluate.report.ablation, "report: ablation")

    @cached_property
    def main(self) -> list[str]:
        """The decoding runs of the main tables."""
        variants = self.ablation[1:]
        chosen = self._chosen(self.evaluate.report.main, "report: main")
        return chosen or [name for name in self.outputs if name not in variants]

    # Comparisons

    @property
    def compared_names(self) -> Sequence[str]:
        """The decoding runs."""
        return list(self.outputs)

    @cached_property
    def baseline(self) -> str | None:
        """The decoding run that all others are compared with first; None if there is none."""
        return self.evaluate.baseline or next(iter(self.outputs), None)

    @cached_property
    def baselines(self) -> list[str]:
        """The decoding runs that all others are compared with."""
        chosen = self._chosen(self.evaluate.compare, "compare") or self._default_baselines
        return list(dict.fromkeys([*([self.baseline] if self.baseline else []), *chosen]))

    @property
    def _default_baselines(self) -> list[str]:
        controls = [name for name, output in self.outputs.items() if output.system.name in self.continued_systems]
        return [*controls, *(name for name, output in self.outputs.items() if output.domain_source == UNIFORM)]

    @cached_property
    def pairs(self) -> Mapping[str, Sequence[str]]:
        """By decoding run its baselines: those of ``compare``, or all of them."""
        if self.compare:
            return self.compare
        return {name: [other for other in self.baselines if other != name] for name in self.outputs}

    def _chosen(self, patterns: Sequence[str], key: str) -> list[str]:
        """The decoding runs that patterns name, in the order of the patterns, each once."""
        chosen: dict[str, None] = {}
        for pattern in patterns:
            found = [name for name in self.outputs if fnmatch.fnmatchcase(name, pattern)]
            if not found:
                self._check_output(pattern, f"evaluate: {key}")
            chosen |= dict.fromkeys(found)
        return list(chosen)

    # Checks of what types alone cannot say

    def _check_output(self, name: str, key: str) -> None:
        if name not in self.outputs:
            raise ValueError(f"{key}: no output {name!r}; there are {_listed(self.outputs)}")

    @model_validator(mode="after")
    def _check_outputs(self) -> Translation:
        for name, output in self.outputs.items():
            if output.system_name not in self.systems:
                there = _listed(self.systems)
                raise ValueError(
                    f"translate: outputs: {name}: system: no {output.system_name!r} under train: systems; "
                    f"there are {there}"
                )
            output._system = self.systems[output.system_name]
        for name in self.evaluate.speed:
            self._check_output(name, "evaluate: speed")
        if self.evaluate.baseline:
            self._check_output(self.evaluate.baseline, "evaluate: baseline")
        for name in self.translate.examples:
            self._check_output(name.partition("@")[0], f"translate: examples: {name}")
        _ = self.main, self.baselines
        return self

    @model_validator(mode="after")
    def _check_languages(self) -> Translation:
        for key in ("source_lang", "target_lang"):
            _as_value_error(check_language, getattr(self, key), key)
        if self.source_lang == self.target_lang:
            raise ValueError(f"target_lang: {self.target_lang!r} is also the source_lang; change one")
        return self

    @model_validator(mode="after")
    def _check_lengths(self) -> Translation:
        """No system has fewer updates than its start has epochs: then epochs were given for updates."""
        for system in self.systems.values():
            base = self.systems.get(system.start or "")
            epochs = option_of(base.options, "max-epoch") if base else None
            updates = option_of(system.options, "max-update")
            if _is_count(epochs) and _is_count(updates) and updates < epochs:
                raise InputError(
                    f"{system.place('max-update')}: {updates} updates are fewer than the {epochs} epochs of "
                    f"{system.start}; give more, or write max-epoch"
                )
        return self


def load_config(path: Path) -> Translation:
    """Read and check the file of a translation experiment."""
    return load_as("translation", Translation, path)


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and value > 0


def _listed(names: Collection[str]) -> str:
    return ", ".join(names) or "none"
