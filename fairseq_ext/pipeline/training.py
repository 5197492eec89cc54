"""Training a system of an experiment: ``fairseq-train`` as a step that can be stopped and resumed."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from fairseq_ext.engine.processes import distributed_arguments
from fairseq_ext.engine.steps import Step, run_steps
from fairseq_ext.experiment.config import ExperimentConfig, load_config
from fairseq_ext.experiment.runs import Experiment, Run, runs_of, start_of
from fairseq_ext.pipeline.fairseq_cli import as_arguments, run_fairseq

BEST_CHECKPOINT = "checkpoint_best.pt"
LOG_FILE = "train.log"


def system_dir(config: Experiment, run: str) -> Path:
    """Where a trained run of a system lies."""
    return config.work_dir / "systems" / run


def best_checkpoint(config: Experiment, run: str) -> Path:
    """The checkpoint of a trained run to start from or translate with."""
    return system_dir(config, run) / BEST_CHECKPOINT


def training_steps(config: ExperimentConfig, name: str, extra: Sequence[str] = ()) -> list[Step]:
    """The steps that end with a trained system, or one run of it: first those it starts from.

    Args:
        config: the experiment.
        name: the system, trained with all its seeds or for all domains, or a run such as ``gad@2``.
        extra: more options for fairseq-train, such as ``--fp16``; they apply to this system alone.

    Raises:
        InputError: if there is no such system or run.
    """
    steps: dict[Path, Step] = {}
    for run in runs_of(config, name):
        start = start_of(config, run)
        for step in training_steps(config, start.name) if start else []:
            steps.setdefault(step.output, step)
        steps[system_dir(config, run.name)] = training_step(config, run, extra)
    return list(steps.values())


def training_step(config: ExperimentConfig, run: Run, extra: Sequence[str] = ()) -> Step:
    """The step that trains one run; the run that it starts from must be there."""
    system, start = run.system, start_of(config, run)
    inputs = [system.data or config.work_dir / "data-bin"]
    arguments = ["--task", "multi_domain_translation", "--seed", str(run.seed), "--no-epoch-checkpoints"]
    if system.uses_teacher:
        inputs.append(config.work_dir / "teacher")
        arguments += ["--teacher-dir", str(inputs[-1])]
    if start:
        inputs.append(best_checkpoint(config, start.name))
        arguments += ["--finetune-from-model", str(inputs[-1])]
    chosen = {**system.options, **({"train-domains": run.domain} if run.domain else {})}
    arguments += [*as_arguments(chosen), *extra]
    options = {"system": chosen, "extra": list(extra), "seed": run.seed}
    return train_step(system_dir(config, run.name), inputs, arguments, options)


def train_step(
    output: Path,
    inputs: Sequence[Path],
    arguments: Sequence[str],
    options: Mapping[str, Any],
    derived: Callable[[], Sequence[str]] = tuple,
) -> Step:
    """A step that runs ``fairseq-train``, resumed where it was stopped and joined by further processes.

    Args:
        output: directory of the checkpoints.
        inputs: what the result depends on, the data directory first.
        arguments: fairseq-train's, but for data, checkpoints, logs and processes.
        options: what the result depends on besides; see :class:`~fairseq_ext.engine.steps.Step`.
        derived: further arguments, which follow from the inputs and are asked for when these are there; what is given
            in ``arguments`` too is taken from there.
    """

    def command() -> list[str]:
        return [str(inputs[0]), *derived(), *arguments, *distributed_arguments(arguments)]

    def build(folder: Path) -> None:
        # How progress is shown changes nothing in the result.
        display = ["--log-format", "tqdm" if sys.stderr.isatty() else "simple", "--log-interval", "100"]
        files = ["--save-dir", str(folder), "--log-file", str(folder / LOG_FILE)]
        run_fairseq("train", [*command(), *files, *display])
        for leftover in folder.glob("*.tmp"):  # of a run that was killed as it saved
            leftover.unlink()

    def join(folder: Path) -> None:
        run_fairseq("train", [*command(), "--save-dir", str(folder), "--log-format", "simple"])

    return Step(output, inputs, options, build, resumable=True, join=join)


def main(arguments: Sequence[str] | None = None) -> None:
    """Command line of ``scripts/train.sh``."""
    parser = argparse.ArgumentParser(
        prog="scripts/train.sh",
        description="Train a system of an experiment, and first the one it starts from. Finished systems are "
        "not trained again; an interrupted training goes on. Further options go to fairseq-train, such as "
        "--fp16, --bf16 or --update-freq 2; all GPUs of the machine are used, and under torchrun or srun those "
        "of all machines.",
    )
    parser.add_argument("config", type=Path, help="experiment file (YAML), see configs/")
    parser.add_argument("system", help="name under train: systems, or one run of it, as gad@2 or ft@LAW")
    parser.add_argument("--dry-run", action="store_true", help="only print which systems would be trained")
    options, extra = parser.parse_known_args(arguments)
    run_steps(training_steps(load_config(options.config), options.system, extra), dry_run=options.dry_run)


if __name__ == "__main__":
    main()
