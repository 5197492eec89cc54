"""Stages of the topics recipe: from text by domain to topic models and their report."""

from __future__ import annotations

from functools import partial

from fairseq_ext.base.stages import Stage
from fairseq_ext.experiments.language_models import preparation_steps, training_step, training_steps
from fairseq_ext.experiments.registry import Recipe
from fairseq_ext.experiments.topics.config import Topics
from fairseq_ext.experiments.topics.measurement import topic_steps
from fairseq_ext.experiments.topics.report import report


def stages_of(config: Topics) -> list[Stage]:
    """Return the stages of an experiment, in order. Each system is a stage with the system's name."""
    train = partial(training_step, config)
    return [
        Stage("prepare", partial(preparation_steps, config)),
        *(Stage(name, partial(training_steps, config, name, train), early=True) for name in config.systems),
        Stage("topics", partial(topic_steps, config)),
        Stage("report", lambda: [report(config)]),
    ]


RECIPE = Recipe(Topics, preparation_steps, stages_of)
