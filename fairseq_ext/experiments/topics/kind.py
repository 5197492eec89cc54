"""An experiment that adapts one language model to domains by topics, from text to its report, as stages."""

from __future__ import annotations

from functools import partial
from typing import Any

from fairseq_ext.engine.stages import Stage, check_stage_names
from fairseq_ext.engine.steps import Step
from fairseq_ext.engine.tasks import Engine
from fairseq_ext.experiments.kinds import Kind
from fairseq_ext.experiments.topics.config import read_config
from fairseq_ext.experiments.topics.measure import topic_steps
from fairseq_ext.experiments.topics.report import report_step
from fairseq_ext.experiments.topics.texts import texts_step
from fairseq_ext.recipes.language_models import preparation_steps, training_steps

_THIS_MACHINE = Engine()


def stages_of(experiment: Any) -> list[Stage]:
    """The stages of an experiment, in order: every system is one, under its own name.

    Raises:
        InputError: if a system is named like another stage.
    """
    stages = [
        Stage("prepare", partial(_preparation, experiment)),
        *(Stage(name, partial(training_steps, experiment, name), trains=True) for name in experiment.systems),
        Stage("topics", partial(topic_steps, experiment)),
        Stage("report", lambda: [report_step(experiment)]),
    ]
    return check_stage_names(stages, f"{experiment.path}: train: systems")


def _preparation(experiment: Any, engine: Engine = _THIS_MACHINE) -> list[Step]:
    return [*preparation_steps(experiment, engine), texts_step(experiment)]


KIND = Kind(read_config, _preparation, stages_of)
