"""Perplexity of contiguous text by a model that carries its state over, counted as ``fairseq-eval-lm`` does."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import fairseq  # noqa: F401  before the package's registrations
import torch
from fairseq import checkpoint_utils, utils
from tqdm import tqdm

from fairseq_ext import registration  # noqa: F401  the checkpoints' models and task
from fairseq_ext.metrics.perplexity import Likelihood, token_losses


@dataclass(frozen=True)
class ContiguousScorer:
    """A model, and the text of a data directory, each set read from its first word to its last.

    Args:
        model: fairseq's, in evaluation mode, on its device.
        task: ``contiguous_language_modeling`` over the data, with one row.
    """

    model: Any
    task: Any

    @classmethod
    def load(cls, checkpoint: Path, data: Path, *, cpu: bool = False) -> ContiguousScorer:
        """Load a checkpoint for the data of a directory, on a GPU if there is one, unless ``cpu``."""
        # One row: no text but the first begins without what came before.
        one_row = {"data": str(data), "batch_size": 1, "batch_size_valid": 1}
        (model,), _, task = checkpoint_utils.load_model_ensemble_and_task([str(checkpoint)], one_row)
        device = "cuda" if torch.cuda.is_available() and not cpu else "cpu"
        return cls(model.to(device).eval(), task)

    @property
    def num_parameters(self) -> int:
        """Trained ones; general-domain word vectors are none."""
        return sum(parameter.numel() for parameter in self.model.parameters())

    def score(self, split: str) -> Likelihood:
        """How probable a set is."""
        likelihood, segments = Likelihood(), self.task.load_dataset(split)
        device = next(self.model.parameters()).device
        for index in tqdm(range(len(segments)), desc=split, unit="segment", disable=None):
            batch = utils.move_to_cuda(segments[index], device) if device.type == "cuda" else segments[index]
            with torch.inference_mode():
                logits, _ = self.model(**batch["net_input"])
                losses = token_losses(logits, batch["target"])
            likelihood.add(losses[batch["target"].ne(self.task.dictionary.pad())])
        return likelihood
