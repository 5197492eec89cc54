"""Training the systems of a translation experiment, as steps."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from fairseq_ext.engine.fairseq_cli import as_arguments
from fairseq_ext.engine.origins import EXTRA
from fairseq_ext.engine.stages import add_jobs_option
from fairseq_ext.engine.steps import Step, add_step_options, run_steps
from fairseq_ext.experiments.translation.changed_labels import changed_labels_step
from fairseq_ext.experiments.translation.config import load_config
from fairseq_ext.experiments.translation.convergence import warn_of
from fairseq_ext.experiments.translation.experiment import TranslationExperiment
from fairseq_ext.inputs.errors import run_command
from fairseq_ext.recipes.config import Run
from fairseq_ext.recipes.train import LOG_FILE, best_checkpoint, train_step
from fairseq_ext.recipes.tune import first_run, steps_of_runs


def training_steps(config: TranslationExperiment, name: str, extra: Sequence[str] = ()) -> list[Step]:
    """The steps that end with a trained system, or one run of it: first those it starts from, and its trials.

    Args:
        config: the experiment.
        name: the system, trained with all its seeds or for all domains, or a run such as ``gad@2``.
        extra: more options for fairseq-train, such as ``--fp16``; they apply to this system alone.

    Raises:
        InputError: if there is no such system or run.
    """
    steps: dict[Path, Step] = {}
    siblings = config.runs(name.partition("@")[0])
    for run in [each for wanted in config.runs(name) for each in (first_run(wanted, siblings), wanted)]:
        start = config.start(run)
        before = training_steps(config, start.name) if start else []
        for step in [*before, *run_steps_of(config, run, siblings, extra)]:
            steps.setdefault(step.output, step)
    return list(steps.values())


def run_steps_of(
    config: TranslationExperiment, run: Run, siblings: Sequence[Run], extra: Sequence[str] = ()
) -> list[Step]:
    """The steps that make the labels of a run alone, and that train it; ``siblings`` are all runs of its system."""
    trainings = steps_of_runs(config, [run], partial(training_step, config, extra=extra), siblings)
    return [*_label_steps(config, run), *trainings]


def training_step(config: TranslationExperiment, run: Run, extra: Sequence[str] = ()) -> Step:
    """The step that trains one run; the run that it starts from must be there."""
    system, start = run.system, config.start(run)
    inputs = [system.data or config.work_dir / "data-bin"]
    arguments = ["--task", "multi_domain_translation", "--seed", str(run.seed), "--no-epoch-checkpoints"]
    made = [step.output for step in _label_steps(config, run)]
    if made or system.uses_teacher:
        inputs.append(made[-1] if made else config.work_dir / "teacher")
        arguments += ["--teacher-dir", str(inputs[-1])]
    if start:
        inputs.append(best_checkpoint(config, start.name))
        arguments += ["--finetune-from-model", str(inputs[-1])]
    chosen = {**system.options, **({"train-domains": run.domain} if run.domain else {})}
    arguments += as_arguments(chosen)
    options = {"system": chosen, EXTRA: list(extra), "seed": run.seed}
    step = train_step(config, run, inputs, arguments, options, extra=extra)

    def build(folder: Path) -> str | None:
        step.build(folder)
        return warn_of(config, run.name, folder / LOG_FILE)

    return replace(step, build=build)


def _label_steps(config: TranslationExperiment, run: Run) -> list[Step]:
    """The steps that end with a run's labels, unless these are the classifier's as they are, or none."""
    system = config.systems[run.system.name]
    return [changed_labels_step(config, system)] if system.label_noise or system.unlabelled else []


def main(arguments: Sequence[str] | None = None) -> None:
    """Command line of ``scripts/train.sh``."""
    parser = argparse.ArgumentParser(
        prog="scripts/train.sh",
        description="Train a system of an experiment, and first the one it starts from. Finished systems are "
        "not trained again; an interrupted training goes on. "
        "Further options go to fairseq-train, such as --fp16, --bf16 or --update-freq 2; they count for this run only. "
        "All GPUs of the machine are used, and under torchrun or srun those of all machines.",
    )
    parser.add_argument("config", type=Path, help="experiment file (YAML), see configs/")
    parser.add_argument("system", help="name under train: systems, or one run of it, as gad@2 or ft@LAW")
    add_step_options(parser)
    add_jobs_option(parser)
    options, extra = parser.parse_known_args(arguments)
    run_steps(
        training_steps(load_config(options.config), options.system, extra),
        dry_run=options.dry_run,
        jobs=options.jobs,
    )


if __name__ == "__main__":
    run_command(main)
