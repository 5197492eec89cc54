"""fairseq's ``sentence_prediction``, as precisely and in as many processes as asked for."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from fairseq.data import FairseqDataset, SortDataset
from fairseq.tasks import register_task
from fairseq.tasks.sentence_prediction import SentencePredictionConfig, SentencePredictionTask

from fairseq_ext.inputs.option import option
from fairseq_ext.tasks.precision import Precision, PrecisionConfig


@dataclass
class TaskPredictionConfig(PrecisionConfig, SentencePredictionConfig):
    """The options of both, and what shares a batch."""

    group_by_length: bool = option(
        False, "sentences of similar length share a batch, as in translation, not random ones: fewer pads"
    )


@register_task("task_prediction", dataclass=TaskPredictionConfig)
class TaskPredictionTask(Precision, SentencePredictionTask):
    """Classification of sentences or of pairs, or regression, with data, heads and criterion of fairseq's."""

    def load_dataset(self, split: str, combine: bool = False, **kwargs: Any) -> FairseqDataset:
        """That of fairseq's; sorted by length where batches are of sentences of similar length."""
        dataset = super().load_dataset(split, combine, **kwargs)
        if self.cfg.group_by_length:
            lengths = np.array([dataset.num_tokens(index) for index in range(len(dataset))])
            ranks = np.argsort(dataset.ordered_indices())  # equal lengths stay in fairseq's order
            dataset = self.datasets[split] = SortDataset(dataset, sort_order=[ranks, lengths])
        return dataset
