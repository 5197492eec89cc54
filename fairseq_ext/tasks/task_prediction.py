"""fairseq's ``sentence_prediction``, as precisely and in as many processes as asked for."""

from dataclasses import dataclass

from fairseq.tasks import register_task
from fairseq.tasks.sentence_prediction import SentencePredictionConfig, SentencePredictionTask

from fairseq_ext.tasks.precision import Precision, PrecisionConfig


@dataclass
class TaskPredictionConfig(PrecisionConfig, SentencePredictionConfig):
    """The options of both."""


@register_task("task_prediction", dataclass=TaskPredictionConfig)
class TaskPredictionTask(Precision, SentencePredictionTask):
    """Classification of sentences or of pairs, or regression, with data, heads and criterion of fairseq's."""
