"""Equal tuning: every value of a grid is tried once, the best by validation is kept, further seeds train with it.

A *trial* is a training like any other, with a directory of its own: ``systems/gad.lr=0.002``. The first run of a system
(of each task or domain, where it has several) is the best of its trials, with the seed of all of them; beside its
checkpoint lie ``trials.json``, the figure of each, and ``chosen.json``, the values that the runs of further seeds take.
"""

from __future__ import annotations

import math
import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from fairseq_ext.engine.fairseq_cli import last_lines
from fairseq_ext.engine.hashing import relative_files
from fairseq_ext.engine.steps import Step
from fairseq_ext.inputs.errors import InputError
from fairseq_ext.inputs.json_file import read_json, write_json
from fairseq_ext.recipes.config import Experiment, Run
from fairseq_ext.recipes.grids import combinations, name_of, with_values, without
from fairseq_ext.recipes.train import BEST_CHECKPOINT, LOG_FILE, best_checkpoint, system_dir

CHOSEN_FILE, TRIALS_FILE = "chosen.json", "trials.json"
_VERSION = 1
_DIVERGED = "FloatingPointError"


def trials_of(run: Run) -> list[Run]:
    """The trials of the first run of a tuned system, which share its seed, domain and start."""
    system, domain = run.system, f"@{run.domain}" if run.domain else ""
    return [
        replace(_with(run, values), name=f"{system.name}.{name_of(values)}{domain}")
        for values in combinations(system.tune)
    ]


def first_run(run: Run, among: Sequence[Run]) -> Run:
    """The run whose trials choose for one: of a tuned system, the first of the same domain or task, else itself."""
    return next(other for other in among if other.domain == run.domain) if run.system.tune else run


def steps_of_runs(
    config: Experiment, runs: Sequence[Run], train: Callable[[Run], Step], among: Sequence[Run] = ()
) -> list[Step]:
    """The steps that train runs of a system; trials come before the run that is the best of them.

    ``train`` makes the step of a training with the values that its system has; ``among`` are all runs of the system,
    if there are others.
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
    """The number of the best figure, the first of equals; there must be one."""
    found = [figure for figure in figures if figure is not None]
    if not found:
        raise InputError(f"{where}: tune: no trial has a number as its validation figure; try other values")
    return figures.index(max(found) if is_maximized else min(found))


def _may_diverge(trial: Step) -> Step:
    """The step of a trial, which is finished, too, where gradients are no numbers any more and fairseq ends."""

    def build(folder: Path) -> None:
        try:
            trial.build(folder)
        except InputError:
            if _DIVERGED not in last_lines(folder / LOG_FILE):
                raise

    return replace(trial, build=build, results=())


def _choosing_step(config: Experiment, run: Run) -> Step:
    """The step that makes the best trial a system's first run."""
    grid, trials = combinations(run.system.tune), trials_of(run)

    def build(folder: Path) -> None:
        metric, is_maximized, figures = _outcomes([best_checkpoint(config, trial.name) for trial in trials])
        number = choose(figures, is_maximized, run.system.place.where)
        chosen = trials[number].name
        _take_over(system_dir(config, chosen), folder)
        found = [
            {"run": trial.name, "values": values, "figure": figure}
            for trial, values, figure in zip(trials, grid, figures, strict=True)
        ]
        write_json(folder / CHOSEN_FILE, grid[number])
        record = {"metric": metric, "is_maximized": is_maximized, "trials": found, "chosen": chosen}
        write_json(folder / TRIALS_FILE, record)

    return Step(
        system_dir(config, run.name),
        [system_dir(config, trial.name) for trial in trials],
        {"version": _VERSION, "trials": [trial.name for trial in trials]},
        build,
        results=[BEST_CHECKPOINT],
        trains=True,
    )


def _later_step(config: Experiment, run: Run, first: Run, train: Callable[[Run], Step]) -> Step:
    """The step of a run that takes the values that another's trials have chosen, once they are known."""
    chosen = system_dir(config, first.name) / CHOSEN_FILE

    def step() -> Step:
        return train(_with(run, read_json(chosen, "make it again")))

    def join(folder: Path) -> None:
        if (further := step().join) is not None:
            further(folder)

    options = without(run.system.options, run.system.tune)
    untuned = train(replace(run, system=run.system.model_copy(update={"options": options, "tune": {}})))
    return replace(untuned, inputs=[*untuned.inputs, chosen], build=lambda folder: step().build(folder), join=join)


def _with(run: Run, values: Mapping[str, Any]) -> Run:
    """The run with values of its system's options, and none to try."""
    options = with_values(run.system.options, values)
    return replace(run, system=run.system.model_copy(update={"options": options, "tune": {}}))


def _take_over(trial: Path, folder: Path) -> None:
    """The files of a finished training; they take no further place where the file system can help it."""
    for name in relative_files(trial):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).unlink(missing_ok=True)
        try:
            os.link(trial / name, folder / name)
        except OSError:
            shutil.copyfile(trial / name, folder / name)


def _outcomes(checkpoints: Sequence[Path]) -> tuple[str, bool, list[float | None]]:
    """What the best checkpoints of trials came to on the validation set.

    Returns:
        what ``--best-checkpoint-metric`` says; whether more of it is better; the figure of each, None for no number
    """
    import fairseq  # noqa: F401  before the package's registrations
    from fairseq import checkpoint_utils

    from fairseq_ext import registration  # noqa: F401  the checkpoints' models

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
