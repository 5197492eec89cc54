"""A whole experiment with classifiers on a frozen RoBERTa, from text and tables to its report, as stages."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from fairseq_ext.engine.stages import Stage, check_stage_names, run_chosen, stage_parser
from fairseq_ext.engine.steps import Step
from fairseq_ext.experiment.classification import (
    evaluation_of,
    roberta_runs_of,
    roberta_systems_of,
    sweep_of,
    sweep_runs_of,
)
from fairseq_ext.experiment.classification_config import ClassificationExperiment, load_classification_config
from fairseq_ext.experiment.runs import Run


def classification_stages_of(config: ClassificationExperiment) -> list[Stage]:
    """The stages of an experiment, in order: every system is one, under its own name.

    Raises:
        InputError: if a system is named like another stage, or the file is wrong in what it says of systems.
    """
    systems, sweep = roberta_systems_of(config), sweep_of(config)
    evaluation_of(config)
    swept = [run for runs in sweep_runs_of(config).values() for run in runs.values()]
    stages = [
        Stage("prepare", partial(_preparation, config)),
        *(Stage(name, partial(_training, config, roberta_runs_of(config, name))) for name in systems),
        *([Stage("sweep", partial(_training, config, swept))] if sweep else []),
        Stage("evaluate", partial(_evaluation, config)),
        Stage("analyse", partial(_analysis, config)),
        Stage("report", partial(_report, config)),
    ]
    return check_stage_names(stages, f"{config.path}: train: systems")


def main(arguments: Sequence[str] | None = None) -> None:
    """Command line of ``scripts/run_classification_experiment.sh``."""
    parser = stage_parser(
        "scripts/run_classification_experiment.sh",
        "Run an experiment with classifiers from its text and tables to its report. Its stages are prepare, every "
        "system by its name, sweep, evaluate, analyse and report. What is finished is not done again; stop the "
        "command as you like and start it again.",
    )
    options = parser.parse_args(arguments)
    run_chosen(classification_stages_of(load_classification_config(options.config)), options)


# The libraries of a stage can take seconds to import; only where it is used it pays.


def _preparation(config: ClassificationExperiment) -> list[Step]:
    from fairseq_ext.preparation.classification_prepare import classification_preparation_steps

    return classification_preparation_steps(config)


def _training(config: ClassificationExperiment, runs: Sequence[Run]) -> list[Step]:
    from fairseq_ext.pipeline.classification_training import roberta_training_step

    steps = [roberta_training_step(config, run) for run in runs]
    return [step for step in steps if step is not None]


def _evaluation(config: ClassificationExperiment) -> list[Step]:
    from fairseq_ext.evaluation.classification_steps import evaluation_steps

    return evaluation_steps(config)


def _analysis(config: ClassificationExperiment) -> list[Step]:
    from fairseq_ext.analysis.classification_steps import analysis_steps

    return analysis_steps(config)


def _report(config: ClassificationExperiment) -> list[Step]:
    from fairseq_ext.report.classification_build import classification_report_step

    return [classification_report_step(config)]


if __name__ == "__main__":
    main()
