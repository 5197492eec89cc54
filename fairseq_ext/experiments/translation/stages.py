"""Stages of a translation experiment, from corpora to a report. Training runs are in ``systems/RUN``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from fairseq_ext.base.errors import InputError, check_choice
from fairseq_ext.base.fairseq_cli import as_arguments
from fairseq_ext.base.jobs import THIS_MACHINE, Engine
from fairseq_ext.base.origin import ORIGIN_FILE
from fairseq_ext.base.provenance import EXTRA
from fairseq_ext.base.stages import Stage
from fairseq_ext.base.steps import Step
from fairseq_ext.classifiers.teacher import write_changed_labels
from fairseq_ext.experiments.config import Run
from fairseq_ext.experiments.metrics.comparison import COMPARISONS_FILE, read_comparisons
from fairseq_ext.experiments.metrics.records import RECORDS_FILE, Record, Records, read_rows
from fairseq_ext.experiments.metrics.render import Page
from fairseq_ext.experiments.recipe import Recipe
from fairseq_ext.experiments.train import LOG_FILE, best_checkpoint, read_training_log, train_step
from fairseq_ext.experiments.translation.analyses import ANALYSES, analysis_steps
from fairseq_ext.experiments.translation.config import Translation
from fairseq_ext.experiments.translation.convergence import curve_records, warning
from fairseq_ext.experiments.translation.data import base_step, general_step, preparation_steps, teacher_steps
from fairseq_ext.experiments.translation.decoding import TASK, translation_step
from fairseq_ext.experiments.translation.examples import EXAMPLES_FILE, Example
from fairseq_ext.experiments.translation.extra_sets import extra_set_steps
from fairseq_ext.experiments.translation.measure import TEACHER_FILE, scoring_step, teacher_records
from fairseq_ext.experiments.translation.report import page
from fairseq_ext.experiments.translation.speed import MACHINE_FILE
from fairseq_ext.experiments.translation.standing import Standing
from fairseq_ext.experiments.tune import first_run, steps_of_runs


class TranslationRecipe(Recipe[Translation]):
    """Translation systems of several domains."""

    experiment_type = Translation
    page_version = 10

    def prepare(self, engine: Engine = THIS_MACHINE) -> list[Step]:
        """Return the data preparation steps in order."""
        return preparation_steps(self.experiment, engine)

    def training_stages(self) -> list[Stage]:
        """Return the stages of the classifier, and of each system that is trained."""
        systems = super().training_stages()
        trained = [stage for stage in systems if not self.experiment.is_base(stage.name)]
        return [Stage("teacher", self._teacher), *trained]

    def _teacher(self) -> list[Step]:
        config = self.experiment
        if len(config.domains) > 1:
            return teacher_steps(config)[-1:]  # the steps before it belong to the stage prepare
        systems = [f"train: systems: {name}" for name, system in config.systems.items() if system.uses_teacher]
        outputs = [f"translate: outputs: {name}" for name, output in config.outputs.items() if output.uses_classifier]
        for name in [*systems, *outputs]:
            raise InputError(
                f"{config.path}: {name}: needs a domain classifier, but there is only one domain; remove it"
            )
        return []

    def train(self, name: str) -> list[Step]:
        """Return the steps that train a system, after the labels and text that only it needs."""
        return [*self._steps_before(name), *super().train(name)]

    def train_from_start(self, name: str, extra: Sequence[str] = ()) -> list[Step]:
        """Return the steps that train a system or one run of it (``gad@2``), after the runs that it starts from.

        ``extra`` are further options for fairseq-train, such as ``--fp16``, for this system only.
        """
        config, steps = self.experiment, dict[Path, Step]()
        siblings = config.runs_of(name.partition("@")[0])
        train = partial(self.train_run, extra=extra)
        for wanted in config.runs_of(name):
            for run in (first_run(wanted, siblings), wanted):
                start = config.start_of(run)
                before = [*(self.train_from_start(start.name) if start else []), *self._steps_before(run.system.name)]
                for step in [*before, *steps_of_runs(config, [run], train, siblings)]:
                    steps.setdefault(step.output, step)
        return list(steps.values())

    def _steps_before(self, name: str) -> list[Step]:
        """Return the steps that make general text and change labels for a system."""
        general = [general_step(self.experiment)] if self.experiment.systems[name].learns_base else []
        return [*general, *changed_labels(self.experiment, name)]

    def train_run(self, run: Run, extra: Sequence[str] = ()) -> Step:
        """Return the step that trains one run. The run that it starts from must be trained already."""
        config, name = self.experiment, run.system.name
        if config.is_base(name):
            return base_step(config)
        inputs = [run.system.data or config.work_dir / "data-bin"]
        arguments = ["--task", TASK, "--seed", str(run.seed), "--no-epoch-checkpoints"]

        def add(option: str, file: Path) -> None:
            inputs.append(file)
            arguments.extend([option, str(file)])

        if labels := changed_labels(config, name):
            add("--teacher-dir", labels[-1].output)
        elif run.system.uses_teacher:
            add("--teacher-dir", config.work_dir / "teacher")
        if config.systems[name].learns_base:
            add("--general-text", general_step(config).output)
        if start := config.start_of(run):
            add("--finetune-from-model", best_checkpoint(config, start.name))
        chosen = {**run.system.options, **({"train-domains": run.domain} if run.domain else {})}
        arguments += as_arguments(chosen)
        options = {"system": chosen, EXTRA: list(extra), "seed": run.seed}
        step = train_step(config, run, inputs, arguments, options, extra=extra)

        def build(folder: Path) -> str | None:
            step.build(folder)
            is_base = name in config.base_systems
            return warning(run.name, read_training_log(folder / LOG_FILE).bits) if is_base else None

        return replace(step, build=build)

    def measuring_stages(self) -> list[Stage]:
        """Return the stages that translate, score and analyse."""
        score, analyse = Stage("score", self._score), Stage("analyse", partial(analysis_steps, self.experiment))
        return [Stage("translate", self._translate, early=True), score, analyse]

    def _translate(self) -> list[Step]:
        config = self.experiment
        return [*(translation_step(config, run) for run in config.all_output_runs()), *extra_set_steps(config)]

    def _score(self) -> list[Step]:
        return [scoring_step(self.experiment)] if self.experiment.outputs else []

    def measure(self) -> list[Step]:
        """Return the steps that score translations, and those of the analyses."""
        return [*self._score(), *analysis_steps(self.experiment)]

    def record_files(self) -> Sequence[Path]:
        """Return the record files of measuring steps. Here, these need not be planned, which takes time."""
        folders = ["scores", *(f"analysis/{name}" for name in ANALYSES)]
        return [self.experiment.work_dir / folder / RECORDS_FILE for folder in folders]

    def other_records(self) -> list[Record]:
        """Return the records of validation curves and of the classifier."""
        return [*curve_records(self.experiment), *teacher_records(self.experiment)]

    def standing(self, records: Records | None = None) -> Standing:
        """Return how the decoding runs stand by these records, by default those measured so far."""
        return Standing(self.experiment, records or self.records(), read_comparisons(self._scored(COMPARISONS_FILE)))

    def page_files(self) -> Sequence[Path]:
        """Return the files of comparisons, examples, the classifier, the timed machine, and the base's origin."""
        work_dir = self.experiment.work_dir
        files = [self._scored(COMPARISONS_FILE), self._scored(EXAMPLES_FILE)]
        return [*files, work_dir / TEACHER_FILE, self._machine_file, self.experiment.subwords_dir / ORIGIN_FILE]

    def page_options(self) -> Mapping[str, Any]:
        """Return what the page shows."""
        config = self.experiment
        return {"main": config.main, "ablation": config.evaluate.report.ablation, "pairs": dict(config.pairs)}

    def page(self, records: Records) -> Page:
        """Make the page of the tables and figures of Klimaszewski et al. (2023), and a recommendation."""
        machine = self._machine_file.read_text(encoding="utf-8").strip() if self._machine_file.is_file() else ""
        path = self._scored(EXAMPLES_FILE)
        examples = read_rows(path, Example) if path.is_file() else []
        return page(self.standing(records), examples, machine)

    def _scored(self, name: str) -> Path:
        return self.experiment.work_dir / "scores" / name

    @property
    def _machine_file(self) -> Path:
        return self.experiment.work_dir / "analysis/speed" / MACHINE_FILE


RECIPE = TranslationRecipe


def changed_labels(config: Translation, name: str) -> list[Step]:
    """Return the step that changes classifier labels if a system asks for it, or an empty list."""
    system, teacher = config.systems[name], config.work_dir / "teacher"
    if not (system.label_noise or system.unlabelled):
        return []
    for domain in system.unlabelled:
        check_choice(domain, config.domains, system.place("unlabelled"))
    change: dict[str, Any] = {"noise": system.label_noise, "unlabelled": sorted(system.unlabelled), "seed": config.seed}
    folder = config.work_dir / "labels" / f"labels-{name}"
    build = partial(write_changed_labels, teacher=teacher, **change)
    return [Step(folder, [teacher], {"version": 1, **change}, build, resumable=True)]
