"""Stages of a translation experiment, from corpora to a report. Training runs are in ``systems/RUN``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from fairseq_ext.base.errors import InputError, check_choice
from fairseq_ext.base.fairseq_cli import as_arguments
from fairseq_ext.base.provenance import EXTRA
from fairseq_ext.base.stages import Stage
from fairseq_ext.base.steps import Step
from fairseq_ext.experiments.config import Run
from fairseq_ext.experiments.registry import Recipe
from fairseq_ext.experiments.train import LOG_FILE, best_checkpoint, read_training_log, train_step
from fairseq_ext.experiments.translation.analyses import analysis_steps
from fairseq_ext.experiments.translation.config import Translation
from fairseq_ext.experiments.translation.convergence import warning
from fairseq_ext.experiments.translation.data import base_step, preparation_steps, teacher_steps
from fairseq_ext.experiments.translation.decoding import TASK, translation_step
from fairseq_ext.experiments.translation.extra_sets import extra_set_steps
from fairseq_ext.experiments.translation.general import general_step
from fairseq_ext.experiments.translation.measurement import scoring_step
from fairseq_ext.experiments.translation.report import report
from fairseq_ext.experiments.tune import first_run, steps_of_runs


def stages_of(config: Translation) -> list[Stage]:
    """Return the stages of an experiment in order. Each trained system is a stage with its name."""
    trained = [name for name in config.systems if not config.is_base(name)]
    return [
        Stage("prepare", partial(preparation_steps, config)),
        Stage("teacher", partial(_teacher, config)),
        *(Stage(name, partial(_training, config, name), early=True) for name in trained),
        Stage("translate", partial(_translation, config), early=True),
        Stage("score", lambda: [scoring_step(config)] if config.outputs else []),
        Stage("analyse", lambda: analysis_steps(config)),
        Stage("report", lambda: [report(config)]),
    ]


def _teacher(config: Translation) -> list[Step]:
    if len(config.domains) > 1:
        return teacher_steps(config)[-1:]  # the steps before it belong to the stage prepare
    systems = [f"train: systems: {name}" for name, system in config.systems.items() if system.uses_teacher]
    outputs = [f"translate: outputs: {name}" for name, output in config.outputs.items() if output.uses_classifier]
    for name in [*systems, *outputs]:
        raise InputError(f"{config.path}: {name}: needs a domain classifier, but there is only one domain; remove it")
    return []


def _training(config: Translation, name: str) -> list[Step]:
    runs = config.runs_of(name)
    steps = [step for run in runs for step in run_steps_of(config, run, runs)]
    return list({step.output: step for step in steps}.values())  # several runs may share labels


def _translation(config: Translation) -> list[Step]:
    return [*(translation_step(config, run) for run in config.all_output_runs()), *extra_set_steps(config)]


# Systems


def training_steps(config: Translation, name: str, extra: Sequence[str] = ()) -> list[Step]:
    """Return the steps that train a system or one run of it (``gad@2``), with its trials and the runs it starts from.

    ``extra`` are further options for fairseq-train, such as ``--fp16``, for this system only.
    """
    steps: dict[Path, Step] = {}
    siblings = config.runs_of(name.partition("@")[0])
    for run in [each for wanted in config.runs_of(name) for each in (first_run(wanted, siblings), wanted)]:
        start = config.start_of(run)
        before = training_steps(config, start.name) if start else []
        for step in [*before, *run_steps_of(config, run, siblings, extra)]:
            steps.setdefault(step.output, step)
    return list(steps.values())


def run_steps_of(config: Translation, run: Run, siblings: Sequence[Run], extra: Sequence[str] = ()) -> list[Step]:
    """Return the steps that change labels for a run and train it. ``siblings`` are all runs of its system."""
    trainings = steps_of_runs(config, [run], partial(training_step, config, extra=extra), siblings)
    general = [general_step(config)] if config.systems[run.system.name].learns_base else []
    return [*general, *changed_labels(config, run.system.name), *trainings]


def training_step(config: Translation, run: Run, extra: Sequence[str] = ()) -> Step:
    """Return the step that trains one run. The run that it starts from must be trained already."""
    system, start = run.system, config.start_of(run)
    if config.is_base(system.name):
        return base_step(config)
    inputs = [system.data or config.work_dir / "data-bin"]
    arguments = ["--task", TASK, "--seed", str(run.seed), "--no-epoch-checkpoints"]
    made = [step.output for step in changed_labels(config, system.name)]
    if made or system.uses_teacher:
        inputs.append(made[-1] if made else config.work_dir / "teacher")
        arguments += ["--teacher-dir", str(inputs[-1])]
    if config.systems[system.name].learns_base:
        inputs.append(general_step(config).output)
        arguments += ["--general-text", str(inputs[-1])]
    if start:
        inputs.append(best_checkpoint(config, start.name))
        arguments += ["--finetune-from-model", str(inputs[-1])]
    chosen = {**system.options, **({"train-domains": run.domain} if run.domain else {})}
    arguments += as_arguments(chosen)
    options = {"system": chosen, EXTRA: list(extra), "seed": run.seed}
    step = train_step(config, run, inputs, arguments, options, extra=extra)

    def build(folder: Path) -> str | None:
        step.build(folder)
        is_base = run.system.name in config.base_systems
        return warning(run.name, read_training_log(folder / LOG_FILE).bits) if is_base else None

    return replace(step, build=build)


def changed_labels(config: Translation, name: str) -> list[Step]:
    """Return the step that changes classifier labels if a system asks for it, or an empty list."""
    system, teacher = config.systems[name], config.work_dir / "teacher"
    if not (system.label_noise or system.unlabelled):
        return []
    from fairseq_ext.classifiers.teacher import write_changed_labels

    for domain in system.unlabelled:
        check_choice(domain, config.domains, system.place("unlabelled"))
    change: dict[str, Any] = {"noise": system.label_noise, "unlabelled": sorted(system.unlabelled), "seed": config.seed}
    folder = config.work_dir / "labels" / f"labels-{name}"
    build = partial(write_changed_labels, teacher=teacher, **change)
    return [Step(folder, [teacher], {"version": 1, **change}, build, resumable=True)]


RECIPE = Recipe(Translation, preparation_steps, stages_of)
