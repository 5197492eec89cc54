"""Experiment file of translation: systems with and without adapters, decoding runs, comparisons."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path

from pydantic import Field, model_validator

from fairseq_ext.base.domain_names import DOMAINS_FILE, read_domain_names
from fairseq_ext.base.errors import InputError, check_choice
from fairseq_ext.base.fairseq_cli import option_of
from fairseq_ext.base.yaml_file import load_yaml
from fairseq_ext.classifiers.classifier import TfidfTeacher
from fairseq_ext.experiments.base import BASE, ExperimentOnBase
from fairseq_ext.experiments.config import Run, Train, expand, named_run, read_experiment
from fairseq_ext.experiments.translation.sections import (
    UNIFORM,
    AnyTeacher,
    Corpora,
    Evaluate,
    Output,
    OutputRun,
    Translate,
    TranslationBase,
    TranslationSystem,
    as_value_error,
)
from fairseq_ext.text.cleaning.clean import Cleaning
from fairseq_ext.text.entries import folder_entries
from fairseq_ext.text.languages import check_language
from fairseq_ext.text.split import Split
from fairseq_ext.text.subwords import Subwords

_CHECKPOINT_OPTIONS = ("finetune-from-model", "restore-file")  # start a training from a checkpoint


class Translation(ExperimentOnBase[TranslationSystem]):
    """An experiment with translation systems of several domains."""

    base_type = TranslationSystem
    base_arch = "transformer"

    base: TranslationBase | None = None
    """Pretrained base model with its own subwords, instead of training one."""
    source_lang: str
    """Language to translate from, as in file names."""
    target_lang: str
    """Language to translate into."""
    corpora: Corpora
    cleaning: Cleaning = Field(default=Cleaning(), alias="clean")
    split: Split = Split()
    subwords: Subwords = Subwords()
    teacher: AnyTeacher = TfidfTeacher()
    """Domain classifier. Its labels supervise the gates."""
    train: Train[TranslationSystem] = Field(default_factory=Train[TranslationSystem])
    translate: Translate = Translate()
    evaluate: Evaluate = Evaluate()

    @property
    def langs(self) -> tuple[str, str]:
        """Source and target language."""
        return self.source_lang, self.target_lang

    @property
    def subwords_dir(self) -> Path:
        """Directory of the subwords: those of the base, reused ones, or the experiment's own."""
        if self.base:
            return self.work_dir / "systems" / BASE / "vocabulary"
        return Path(self.subwords.reuse) if self.subwords.reuse else self.work_dir / "subwords"

    @property
    def domains(self) -> list[str]:
        """Domains, in order. If they are defined by a folder, it must be readable."""
        if self.corpora.domains is not None:
            return sorted(self.corpora.domains)
        # Machines that only train may not have the corpora.
        binarised = self.work_dir / "data-bin" / DOMAINS_FILE
        if binarised.is_file():
            return read_domain_names(binarised)
        return sorted(folder_entries(Path(self.corpora.folder or ""), self.langs))

    # Systems and their runs

    @model_validator(mode="after")
    def _check_given_base(self) -> Translation:
        if self.base and self.subwords.model_fields_set:
            raise ValueError("subwords: the base has its own subwords; remove this section")
        for system in self.systems.values():
            if system.learns_base and (self.base is None or not self.teacher.base_text):
                raise ValueError(
                    f"train: systems: {system.name}: gate-base needs a pretrained model, and general text that it "
                    "translates; set base and teacher: base_text"
                )
        return self

    def runs_of(self, name: str) -> list[Run]:
        """Return the runs of a system, or the single run with this name."""
        where = f"{self.path}: train: systems"
        system_name, separator, _ = name.partition("@")
        check_choice(system_name, list(self.systems), where)
        system = self.systems[system_name]
        runs = expand(system, self.seed, self.domains if system.per_domain else ())
        return [named_run(runs, name, f"{where}: {system_name}")] if separator else runs

    # The base model and its control

    @property
    def has_tags(self) -> bool:
        """Whether a system reads domain tags."""
        return any(system.has_tags for system in self.systems.values())

    def origin_of(self, name: str) -> str:
        """Return the system that a system starts from, directly or through others: itself, if it starts from none."""
        start = self.systems[name].start
        return self.origin_of(start) if start else name

    def starts_here(self, name: str) -> bool:
        """Return whether a system is trained from random weights in this experiment, directly or through others."""
        origin = self.origin_of(name)
        continues = any(option_of(self.systems[origin].options, option) for option in _CHECKPOINT_OPTIONS)
        return not continues and not self.is_base(origin)

    @cached_property
    def base_systems(self) -> list[str]:
        """Base models of systems with adapters, in file order."""
        starts = {system.start for system in self.systems.values() if system.has_adapters}
        return [name for name, system in self.systems.items() if name in starts and not system.has_adapters]

    @cached_property
    def continued_systems(self) -> dict[str, str]:
        """Base models by the names of their controls, which are trained further on all domains.

        Controls show the gain of further training without adapters.
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

    @cached_property
    def outputs(self) -> Mapping[str, Output]:
        """Decoding runs by name, each with its system."""
        outputs = self.translate.outputs.items()
        return {name: output.with_system(self.systems[output.system_name]) for name, output in outputs}

    def output_runs(self, name: str) -> list[OutputRun]:
        """Return the runs of an output, one per run of its system, or the single one with this name."""
        where = f"{self.path}: translate: outputs"
        output_name, separator, _ = name.partition("@")
        check_choice(output_name, list(self.outputs), where)
        output = self.outputs[output_name]
        runs = [OutputRun(output, run) for run in self.runs_of(output.system.name)]
        return [named_run(runs, name, f"{where}: {output_name}")] if separator else runs

    def domain_of(self, run: OutputRun) -> str | None:
        """Return the only domain that an output run translates; None if it translates all."""
        return None if self.evaluate.forgetting else run.run.domain

    def all_output_runs(self) -> list[OutputRun]:
        """Return the decoding runs of all outputs, in file order."""
        return [run for name in self.outputs for run in self.output_runs(name)]

    @property
    def gated_runs(self) -> list[str]:
        """Decoding runs on all domains that write gate weights."""
        return [run.name for run in self.all_output_runs() if run.output.gates and run.run.domain is None]

    @cached_property
    def plain_outputs(self) -> list[str]:
        """Decoding runs of base models and their controls."""
        plain = {*self.base_systems, *self.continued_systems}
        return [name for name, output in self.outputs.items() if output.system.name in plain]

    @cached_property
    def reference(self) -> str:
        """Decoding run that gains and losses refer to: of the model that adapters start from; empty if there is none.

        If that model was itself trained from another one, it is the decoding run of the latter.
        """
        systems = [*map(self.origin_of, self.base_systems), *self.base_systems]
        names = [name for system in systems for name, output in self.outputs.items() if output.system.name == system]
        return next((name for name in names if not self.outputs[name].uses_oracle), "")

    @property
    def main(self) -> list[str]:
        """Decoding runs of the main tables: all but the variants of the ablation."""
        variants = self.evaluate.report.ablation[1:]
        return [name for name in self.outputs if name not in variants]

    # Comparisons

    @property
    def compared_names(self) -> Sequence[str]:
        """Names of the decoding runs."""
        return list(self.translate.outputs)

    @cached_property
    def baselines(self) -> list[str]:
        """Decoding runs that all other runs are compared with."""
        first = [self.evaluate.baseline] if self.evaluate.baseline else list(self.outputs)[:1]
        controls = [name for name, output in self.outputs.items() if output.system.name in self.continued_systems]
        uniform = [name for name, output in self.outputs.items() if output.domain_source == UNIFORM]
        return list(dict.fromkeys([*first, *(self.evaluate.compare or [*controls, *uniform])]))

    @cached_property
    def pairs(self) -> Mapping[str, Sequence[str]]:
        """Baselines by decoding run: those of ``compare``, or else all baselines."""
        if self.compare:
            return self.compare
        return {name: [other for other in self.baselines if other != name] for name in self.outputs}

    # Checks beyond types

    @model_validator(mode="after")
    def _check_outputs(self) -> Translation:
        for name, output in self.translate.outputs.items():
            where = f"translate: outputs: {name}: system"
            as_value_error(check_choice, output.system_name, list(self.systems), where)
        evaluate = self.evaluate
        named = {"speed": evaluate.speed, "compare": evaluate.compare, "report: ablation": evaluate.report.ablation}
        for key, names in {**named, "baseline": [evaluate.baseline] if evaluate.baseline else []}.items():
            for name in names:
                as_value_error(check_choice, name, list(self.outputs), f"evaluate: {key}")
        return self

    @model_validator(mode="after")
    def _check_languages(self) -> Translation:
        for key in ("source_lang", "target_lang"):
            as_value_error(check_language, getattr(self, key), key)
        if self.source_lang == self.target_lang:
            raise ValueError(f"target_lang: {self.target_lang!r} is also the source_lang; change one")
        return self


def load_config(path: Path) -> Translation:
    """Read and check a translation experiment file."""
    content = dict(load_yaml(path))
    if (kind := content.pop("kind", None)) not in (None, "translation"):
        raise InputError(f"{path}: kind: this command supports translation only, not {kind!r}; use fairseq-ext run")
    return read_experiment(Translation, content, path)
