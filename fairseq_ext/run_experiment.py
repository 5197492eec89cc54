"""A whole translation experiment, from corpora to its report, as stages."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from fairseq_ext.engine.stages import Stage, check_stage_names, run_chosen, stage_parser
from fairseq_ext.engine.steps import Step
from fairseq_ext.experiment.config import ExperimentConfig, load_config
from fairseq_ext.experiment.runs import baseline_of, outputs_of, runs_of, systems_of
from fairseq_ext.pipeline.training import training_step


def stages_of(config: ExperimentConfig) -> list[Stage]:
    """The stages of an experiment, in order: every system is one, under its own name.

    Raises:
        InputError: if a system is named like another stage, or the file is wrong in what it says of runs.
    """
    before = {"prepare": _preparation, "teacher": _teacher}
    after = {"translate": _translation, "score": _scores, "analyse": _analyses, "report": _report}
    stages = [
        *(Stage(name, partial(make, config)) for name, make in before.items()),
        *(Stage(name, partial(_training, config, name)) for name in systems_of(config)),
        *(Stage(name, partial(make, config)) for name, make in after.items()),
    ]
    baseline_of(config)
    return check_stage_names(stages, f"{config.path}: train: systems")


def main(arguments: Sequence[str] | None = None) -> None:
    """Command line of ``scripts/run_experiment.sh``."""
    parser = stage_parser(
        "scripts/run_experiment.sh",
        "Run an experiment from its corpora to its report. Its stages are prepare, teacher, every "
        "system by its name, translate, score, analyse and report. What is finished is not done again; stop the "
        "command as you like and start it again.",
    )
    options = parser.parse_args(arguments)
    run_chosen(stages_of(load_config(options.config)), options)


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
