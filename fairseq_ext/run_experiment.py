"""A whole experiment, from corpora to its report, as stages: each a list of steps."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from fairseq_ext.engine.steps import Step, print_plan, run_steps
from fairseq_ext.errors import InputError
from fairseq_ext.experiment.config import ExperimentConfig, load_config
from fairseq_ext.experiment.runs import baseline_of, outputs_of, runs_of, systems_of
from fairseq_ext.pipeline.training import training_step


@dataclass(frozen=True)
class Stage:
    """A part of an experiment.

    Attributes:
        name: what the command line calls it.
        steps: makes its steps, when all stages before it are done; what these left decides, for instance, which
            domains there are.
    """

    name: str
    steps: Callable[[], list[Step]]


def stages_of(config: ExperimentConfig) -> list[Stage]:
    """The stages of an experiment, in order: every system is one, under its own name.

    Raises:
        InputError: if a system is named like another stage, or the file is wrong in what it says of runs.
    """
    before = {"prepare": _preparation, "teacher": _teacher}
    after = {"translate": _translation, "score": _scores, "analyse": _analyses, "report": _report}
    systems = systems_of(config)
    for name in systems:
        if name in before or name in after:
            raise InputError(f"{config.path}: train: systems: {name!r} is the name of a stage; choose another one")
    baseline_of(config)
    return [
        *(Stage(name, partial(make, config)) for name, make in before.items()),
        *(Stage(name, partial(_training, config, name)) for name in systems),
        *(Stage(name, partial(make, config)) for name, make in after.items()),
    ]


def choose_stages(
    stages: Sequence[Stage], first: str | None = None, last: str | None = None, only: Sequence[str] = ()
) -> list[Stage]:
    """The stages from ``first`` to ``last``, or ``only`` these, in their own order.

    Raises:
        InputError: naming a stage that is not there, or an empty choice.
    """
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


def run_stages(stages: Sequence[Stage], chosen: Sequence[Stage], *, dry_run: bool = False) -> None:
    """Run the chosen stages in order; with ``dry_run`` print what each of their steps would do.

    Args:
        stages: all of the experiment.
        chosen: those to run.
        dry_run: only print the plan.

    Raises:
        InputError: naming the stage to run first, if one needs what is not there.
    """
    planned: list[Step] = []
    for stage in chosen:
        steps = stage.steps()
        planned += steps
        _check_inputs(stage, steps, planned, stages)
        if not dry_run:
            run_steps(steps)
    if dry_run:
        print_plan(planned)


def main(arguments: Sequence[str] | None = None) -> None:
    """Command line of ``scripts/run_experiment.sh``."""
    parser = argparse.ArgumentParser(
        prog="scripts/run_experiment.sh",
        description="Run an experiment from its corpora to its report. Its stages are prepare, teacher, every "
        "system by its name, translate, score, analyse and report. What is finished is not done again; stop the "
        "command as you like and start it again.",
    )
    parser.add_argument("config", type=Path, help="experiment file (YAML), see configs/")
    parser.add_argument("--from", dest="first", metavar="STAGE", help="begin with this stage (default: the first)")
    parser.add_argument("--to", dest="last", metavar="STAGE", help="end with this stage (default: the last)")
    parser.add_argument("--only", nargs="+", default=[], metavar="STAGE", help="run these stages alone")
    parser.add_argument("--dry-run", action="store_true", help="only print which steps would run")
    options = parser.parse_args(arguments)
    stages = stages_of(load_config(options.config))
    chosen = choose_stages(stages, options.first, options.last, options.only)
    # A test set that is not there is to be noticed before the first training, not after the last.
    for stage in chosen:
        stage.steps()
    run_stages(stages, chosen, dry_run=options.dry_run)


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


# The libraries of a stage can take seconds to import; only where it is used it pays.


def _preparation(config: ExperimentConfig) -> list[Step]:
    from fairseq_ext.preparation.prepare import preparation_steps

    return preparation_steps(config)


def _teacher(config: ExperimentConfig) -> list[Step]:
    from fairseq_ext.teacher.train import teacher_steps

    # The steps before the last are the stage prepare's.
    return teacher_steps(config)[-1:]


def _training(config: ExperimentConfig, name: str) -> list[Step]:
    return [training_step(config, run) for run in runs_of(config, name)]


def _translation(config: ExperimentConfig) -> list[Step]:
    from fairseq_ext.pipeline.examples import examples_step
    from fairseq_ext.pipeline.out_of_domain import out_of_domain_steps
    from fairseq_ext.pipeline.translation import translation_steps

    steps = [step for name in outputs_of(config) for step in translation_steps(config, name)]
    examples = [examples_step(config)] if config.translate.get("examples") else []
    return [*steps, *out_of_domain_steps(config), *examples]


def _scores(config: ExperimentConfig) -> list[Step]:
    from fairseq_ext.evaluation.scores import scoring_step

    return [scoring_step(config)] if outputs_of(config) else []


def _analyses(config: ExperimentConfig) -> list[Step]:
    from fairseq_ext.analysis.steps import analysis_steps

    return analysis_steps(config)


def _report(config: ExperimentConfig) -> list[Step]:
    from fairseq_ext.report.build import report_step

    return [report_step(config)]


if __name__ == "__main__":
    main()
