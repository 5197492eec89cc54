"""Grid search: every combination of values is tried once, and further seeds train with the best by validation.

A *trial* is a normal training run with a separate directory, for example ``systems/gad.lr=0.002``. All trials use the
same seed. The first run of a system (of each task or domain, if there are several) is the best of its trials. Next to
its checkpoint are ``trials.json``, with the validation metric of each trial, and ``chosen.json``, with the values for
the runs of further seeds.
"""

from __future__ import annotations

import math
import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from fairseq_ext import install
from fairseq_ext.base.errors import InputError
from fairseq_ext.base.fairseq_cli import last_lines
from fairseq_ext.base.hashing import relative_files
from fairseq_ext.base.json_file import read_json, write_json
from fairseq_ext.base.steps import Step
from fairseq_ext.experiments.config import Experiment, Run
from fairseq_ext.experiments.grids import combinations, name_of, with_values, without
from fairseq_ext.experiments.train import BEST_CHECKPOINT, LOG_FILE, best_checkpoint, system_dir

CHOSEN_FILE, TRIALS_FILE = "chosen.json", "trials.json"
_VERSION = 1
_DIVERGED = "FloatingPointError"


def trials_of(run: Run) -> list[Run]:
    """Return the trials of a tuned system's first run. They share its seed, domain and start."""
    system, domain = run.system, f"@{run.domain}" if run.domain else ""
    return [
        replace(_with(run, values), name=f"{system.name}.{name_of(values)}{domain}")
        for values in combinations(system.tune)
    ]


def first_run(run: Run, among: Sequence[Run]) -> Run:
    """Return the run whose trials tune this run: the first of its domain or task, or itself if it is not tuned."""
    return next(other for other in among if other.domain == run.domain) if run.system.tune else run


def steps_of_runs(
    config: Experiment, runs: Sequence[Run], train: Callable[[Run], Step], among: Sequence[Run] = ()
) -> list[Step]:
    """Return the steps that train runs of a system. Trials precede the run that takes over the best of them.

    Args:
        train: returns the step that trains a run with the options of its system.
        among: all runs of the system (default: ``runs``).
    """
    steps: list[Step] = []
    for run in runs:
        first = first_run(run, among or runs)
        if not run.system.tune:
            steps.append(train(run))
        elif run == first:
            steps += [*(_may_diverge(train(trial)) for trial in trials_of(run)), _choosing_step(config, run)]
        else:
            steps.append(_later_step(config, run, first, train))
    return steps


def choose(figures: Sequence[float | None], is_maximized: bool, where: str) -> int:
    """Return the index of the best figure, the first one if tied. At least one must not be None."""
    finite = [figure for figure in figures if figure is not None]
    if not finite:
        raise InputError(f"{where}: tune: no trial has a finite validation metric; list other values")
    return figures.index(max(finite) if is_maximized else min(finite))


def _may_diverge(trial: Step) -> Step:
    """Return the step of a trial that also counts as finished if fairseq stops because of NaN or infinite gradients."""

    def build(folder: Path) -> None:
        try:
            trial.build(folder)
        except InputError:
            if _DIVERGED not in last_lines(folder / LOG_FILE):
                raise

    return replace(trial, build=build, results=())


def _choosing_step(config: Experiment, run: Run) -> Step:
    """Return the step that makes the best trial the first run of a system."""
    grid, trials = combinations(run.system.tune), trials_of(run)

    def build(folder: Path) -> None:
        metric, is_maximized, figures = _outcomes([best_checkpoint(config, trial.name) for trial in trials])
        number = choose(figures, is_maximized, run.system.place.where)
        chosen = trials[number].name
        _take_over(system_dir(config, chosen), folder)
        outcomes = [
            {"run": trial.name, "values": values, "figure": figure}
            for trial, values, figure in zip(trials, grid, figures, strict=True)
        ]
        write_json(folder / CHOSEN_FILE, grid[number])
        record = {"metric": metric, "is_maximized": is_maximized, "trials": outcomes, "chosen": chosen}
        write_json(folder / TRIALS_FILE, record)

    directories = [system_dir(config, trial.name) for trial in trials]
    options = {"version": _VERSION, "trials": [trial.name for trial in trials]}
    return Step(system_dir(config, run.name), directories, options, build, results=[BEST_CHECKPOINT], trains=True)


def _later_step(config: Experiment, run: Run, first: Run, train: Callable[[Run], Step]) -> Step:
    """Return the step of a run that uses the values chosen by the trials of ``first``, once they are known."""
    chosen = system_dir(config, first.name) / CHOSEN_FILE

    def step() -> Step:
        return train(_with(run, read_json(chosen, "run the command again")))

    def join(folder: Path) -> None:
        if (further := step().join) is not None:
            further(folder)

    options = without(run.system.options, run.system.tune)
    untuned = train(replace(run, system=run.system.model_copy(update={"options": options, "tune": {}})))
    return replace(untuned, inputs=[*untuned.inputs, chosen], build=lambda folder: step().build(folder), join=join)


def _with(run: Run, values: Mapping[str, Any]) -> Run:
    """Return the run with these option values and without a grid."""
    options = with_values(run.system.options, values)
    return replace(run, system=run.system.model_copy(update={"options": options, "tune": {}}))


def _take_over(trial: Path, folder: Path) -> None:
    """Take over the files of a finished training run, as hard links where the file system supports them."""
    for name in relative_files(trial):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).unlink(missing_ok=True)
        try:
            os.link(trial / name, folder / name)
        except OSError:
            shutil.copyfile(trial / name, folder / name)


def _outcomes(checkpoints: Sequence[Path]) -> tuple[str, bool, list[float | None]]:
    """Return the validation results of the best checkpoints of trials.

    Returns:
        the value of ``--best-checkpoint-metric``, whether higher is better, and the metric of each trial (None if it
        is missing or not finite).
    """
    from fairseq import checkpoint_utils

    install()
    metric, is_maximized, figures = "", False, list[float | None]()
    for path in checkpoints:
        best: Any = None
        if path.is_file():
            state = checkpoint_utils.load_checkpoint_to_cpu(str(path))
            saving, best = state["cfg"]["checkpoint"], (state.get("extra_state") or {}).get("best")
            metric, is_maximized = saving["best_checkpoint_metric"], saving["maximize_best_checkpoint_metric"]
        is_number = isinstance(best, int | float) and math.isfinite(best)
        figures.append(float(best) if is_number else None)
    return metric, is_maximized, figures
