"""Stages of an experiment, each a list of steps, and the choice of stages to run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import groupby

from fairseq_ext.base.errors import InputError
from fairseq_ext.base.steps import Step, check_options, run_steps


@dataclass(frozen=True)
class Stage:
    """A part of an experiment, with its name on the command line."""

    name: str
    # Called when all earlier stages are done, because the steps may depend on their results, such as the domains.
    steps: Callable[[], list[Step]]
    # The steps depend only on the experiment file. With several jobs or a cluster, each step runs as soon as its inputs
    # exist, together with steps of neighbouring stages.
    early: bool = False


def check_stage_names(stages: Sequence[Stage], where: str) -> None:
    """Check that no system has the name of another stage, since each system is a stage."""
    names = [stage.name for stage in stages]
    for name in names:
        if names.count(name) > 1:
            raise InputError(f"{where}: {name!r} is already the name of a stage; choose another name")


def choose_stages(
    stages: Sequence[Stage], first: str | None = None, last: str | None = None, only: Sequence[str] = ()
) -> list[Stage]:
    """Return the stages from ``first`` to ``last``, or only those in ``only``, in their own order."""
    names = [stage.name for stage in stages]
    for option, wanted in (("--from", [first]), ("--to", [last]), ("--only", only)):
        for name in wanted:
            if name is not None and name not in names:
                raise InputError(f"{option} {name}: unknown stage; choose one of {', '.join(names)}")
    if only:
        if first or last:
            raise InputError("--only: cannot be used with --from or --to; remove them")
        return [stage for stage in stages if stage.name in only]
    chosen = stages[names.index(first) if first else 0 : names.index(last) + 1 if last else len(names)]
    if not chosen:
        raise InputError(f"--from {first} --to {last}: {last} comes before {first}; swap them")
    return list(chosen)


def run_chosen(
    stages: Sequence[Stage],
    first: str | None = None,
    last: str | None = None,
    only: Sequence[str] = (),
    *,
    dry_run: bool = False,
    jobs: int = 1,
    scheduler: str | None = None,
) -> None:
    """Run the stages that :func:`choose_stages` selects; see :func:`~fairseq_ext.base.steps.run_steps`."""
    chosen = choose_stages(stages, first, last, only)
    # Detect a missing test set or a misspelt option before the first training run.
    check_options([step for stage in chosen for step in stage.steps()])
    planned: list[Step] = []
    at_once = jobs > 1 or scheduler is not None
    for early, found in groupby(chosen, lambda stage: stage.early and at_once):
        neighbours = list(found)
        for together in [neighbours] if early else [[stage] for stage in neighbours]:
            steps = [step for stage in together for step in stage.steps()]
            planned += steps
            if not dry_run:
                run_steps(steps, jobs=jobs, scheduler=scheduler)
    if dry_run:
        run_steps(planned, dry_run=True)
