"""fairseq's ``sentence_prediction`` with options for precision, CPU processes and batching."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from fairseq.data import FairseqDataset, SortDataset
from fairseq.tasks import register_task
from fairseq.tasks.sentence_prediction import SentencePredictionConfig, SentencePredictionTask

from fairseq_ext.base.option import option
from fairseq_ext.tasks.precision import Precision, PrecisionConfig


@dataclass
class TaskPredictionConfig(PrecisionConfig, SentencePredictionConfig):
    """Options of ``sentence_prediction``, of precision and of batching."""

    group_by_length: bool = option(
        False, "batch sentences of similar length, as in translation, to reduce padding (default: random batches)"
    )


@register_task("task_prediction", dataclass=TaskPredictionConfig)
class TaskPredictionTask(Precision, SentencePredictionTask):
    """Classification of sentences or pairs, or regression, with fairseq's data, heads and criterion."""

    def load_dataset(self, split: str, combine: bool = False, **kwargs: Any) -> FairseqDataset:
        """Load fairseq's dataset, sorted by length with ``--group-by-length``."""
        dataset = super().load_dataset(split, combine, **kwargs)
        if self.cfg.group_by_length:
            lengths = np.array([dataset.num_tokens(index) for index in range(len(dataset))])
            ranks = np.argsort(dataset.ordered_indices())  # equal lengths stay in fairseq's order
            dataset = self.datasets[split] = SortDataset(dataset, sort_order=[ranks, lengths])
        return dataset
