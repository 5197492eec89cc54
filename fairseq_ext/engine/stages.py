"""Stages: the parts of a whole experiment, each a list of steps, and which of them a command runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import groupby

from fairseq_ext.engine.steps import Step, check_options, run_steps
from fairseq_ext.inputs.errors import InputError


@dataclass(frozen=True)
class Stage:
    """A part of an experiment.

    Attributes:
        name: what the command line calls it.
        steps: makes its steps, when all stages before it are done; what these left decides, for instance, which
            domains there are.
        early: the experiment file alone decides on its steps. With several jobs or a cluster, each of them runs as soon
            as its inputs are there, beside those of neighbouring stages.
        spreads: its steps stay here, and share their work among the cluster's workers themselves.
    """

    name: str
    steps: Callable[[], list[Step]]
    early: bool = False
    spreads: bool = False


def check_stage_names(stages: Sequence[Stage], where: str) -> None:
    """Check that no system, which is a stage of its name, is named like another stage of ``where``."""
    names = [stage.name for stage in stages]
    for name in names:
        if names.count(name) > 1:
            raise InputError(f"{where}: {name!r} is the name of a stage; choose another one")


def choose_stages(
    stages: Sequence[Stage], first: str | None = None, last: str | None = None, only: Sequence[str] = ()
) -> list[Stage]:
    """The stages from ``first`` to ``last``, or ``only`` these, in their own order."""
    names = [stage.name for stage in stages]
    for option, wanted in (("--from", [first]), ("--to", [last]), ("--only", only)):
        for name in wanted:
            if name is not None and name not in names:
                raise InputError(f"{option} {name}: no such stage; there are {', '.join(names)}")
    if only:
        if first or last:
            raise InputError("--only: names all stages that run; leave out --from and --to")
        return [stage for stage in stages if stage.name in only]
    chosen = stages[names.index(first) if first else 0 : names.index(last) + 1 if last else len(names)]
    if not chosen:
        raise InputError(f"--from {first} --to {last}: {last} comes before {first}; exchange them")
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
    """Run the stages that :func:`choose_stages` chooses; with ``dry_run`` print what each of their steps would do.

    Args:
        stages: all of the experiment.
        first: see :func:`choose_stages`, as ``last`` and ``only``.
        dry_run: only print the plan.
        jobs: steps at once, at most.
        scheduler: of a Dask cluster to run them on.
    """
    chosen = choose_stages(stages, first, last, only)
    # A missing test set or a misspelt option is to be noticed before the first training, not after the last.
    check_options([step for stage in chosen for step in stage.steps()])
    planned: list[Step] = []
    at_once = jobs > 1 or scheduler is not None
    for early, found in groupby(chosen, lambda stage: stage.early and at_once):
        neighbours = list(found)
        for together in [neighbours] if early else [[stage] for stage in neighbours]:
            before = len(planned)
            for stage in together:
                steps = stage.steps()
                planned += steps
                _check_inputs(stage, steps, planned, stages)
            if not dry_run:
                elsewhere = None if together[0].spreads else scheduler
                run_steps(planned[before:], jobs=jobs, scheduler=elsewhere)
    if dry_run:
        run_steps(planned, dry_run=True)


def _check_inputs(stage: Stage, steps: Sequence[Step], planned: Sequence[Step], stages: Sequence[Stage]) -> None:
    """Name the stage that makes what is missing, if no step makes it that runs before."""
    made = {step.output for step in planned}
    for step in steps:
        for path in step.inputs:
            if path.exists() or made & {path, *path.parents}:
                continue
            for earlier in stages[: [other.name for other in stages].index(stage.name)]:
                if {path, *path.parents} & {other.output for other in earlier.steps()}:
                    raise InputError(
                        f"{stage.name}: needs {path}, which the stage {earlier.name} makes; run that first: "
                        f"--from {earlier.name}"
                    )
