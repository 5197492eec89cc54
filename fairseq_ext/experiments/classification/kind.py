"""A whole experiment with classifiers on a frozen RoBERTa, from text and tables to its report, as stages."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from fairseq_ext.engine.stages import Stage, check_stage_names
from fairseq_ext.engine.steps import Step
from fairseq_ext.engine.tasks import Engine
from fairseq_ext.experiments.classification.config import ClassificationExperiment, read
from fairseq_ext.experiments.kinds import Kind
from fairseq_ext.recipes.config import Run

_THIS_MACHINE = Engine()


def stages_of(config: ClassificationExperiment) -> list[Stage]:
    """The stages of an experiment, in order: every system is one, under its own name.

    Raises:
        InputError: if a system is named like another stage.
    """
    swept = [run for runs in config.sweep_runs.values() for run in runs.values()]
    stages = [
        Stage("prepare", partial(_preparation, config)),
        *(Stage(name, partial(_training, config, runs), trains=True) for name, runs in config.runs.items()),
        *([Stage("sweep", partial(_training, config, swept), trains=True)] if config.sweep else []),
        Stage("evaluate", partial(_evaluation, config)),
        Stage("analyse", partial(_analysis, config)),
        Stage("report", partial(_report, config)),
    ]
    return check_stage_names(stages, f"{config.path}: train: systems")


# The libraries of a stage can take seconds to import; only where it is used it pays.


def _preparation(config: ClassificationExperiment, engine: Engine = _THIS_MACHINE) -> list[Step]:
    from fairseq_ext.experiments.classification.prepare import preparation_steps

    return preparation_steps(config, engine)


def _training(config: ClassificationExperiment, runs: Sequence[Run]) -> list[Step]:
    from fairseq_ext.experiments.classification.train import training_steps

    return training_steps(config, runs)


def _evaluation(config: ClassificationExperiment) -> list[Step]:
    from fairseq_ext.experiments.classification.evaluate import evaluation_steps

    return evaluation_steps(config)


def _analysis(config: ClassificationExperiment) -> list[Step]:
    from fairseq_ext.experiments.classification.analyses import analysis_steps

    return analysis_steps(config)


def _report(config: ClassificationExperiment) -> list[Step]:
    from fairseq_ext.experiments.classification.report import report_step

    return [report_step(config)]


KIND = Kind(read, _preparation, stages_of)
