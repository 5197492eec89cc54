"""What every adapter of a translation model is worth to a sentence: the loss of its true translation under each alone.

No search: a batch passes the model once for each adapter, which takes the whole weight in all layers.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import fairseq  # noqa: F401  before the package's registrations
import numpy as np
import torch
import torch.nn.functional as F
from fairseq import checkpoint_utils, utils
from torch import Tensor

from fairseq_ext import registration  # noqa: F401  the checkpoints' models and task
from fairseq_ext.inputs.errors import InputError
from fairseq_ext.training.cpu_steps import STEPS, CpuStep

_MAX_TOKENS = 2000


@dataclass(frozen=True)
class AdapterScorer:
    """A model with adapters, plain or gated, and the sentence pairs of a data directory.

    Args:
        model: fairseq's, in evaluation mode, on its device.
        task: ``multi_domain_translation`` over the data.
        precision: of products on a CPU, float32 or bfloat16.
        max_tokens: tokens in a batch.
    """

    model: Any
    task: Any
    precision: torch.dtype = torch.float32
    max_tokens: int = _MAX_TOKENS

    @classmethod
    def load(cls, checkpoint: Path, data: Path, *, precision: torch.dtype = torch.float32) -> AdapterScorer:
        """Load a checkpoint for the data of a directory, on a GPU where there is one.

        Raises:
            InputError: if the checkpoint has no adapters, or those of other domains.
        """
        # Domains are put into the batches here; labels that the model was trained with are not needed.
        overrides = {"data": str(data), "teacher_dir": "", "domain_source": "oracle", "domain": ""}
        (model,), _, task = checkpoint_utils.load_model_ensemble_and_task([str(checkpoint)], overrides)
        if not hasattr(model, "adapter_names"):
            raise InputError(f"{checkpoint}: has no adapters of domains; give a system that has")
        device = "cuda" if torch.cuda.is_available() else "cpu"
        return cls(model.to(device).eval(), task, precision)

    @property
    def domains(self) -> list[str]:
        """The D adapters, in order."""
        return list(self.model.adapter_names)

    def losses(self, domain: str, split: str) -> np.ndarray:
        """The negative log likelihood of every true translation under every adapter, in nats.

        Shape:
            result: N×D, float32, in the order of the set
        """
        name = f"{split}:{domain}"
        self.task.load_dataset(name)
        dataset = self.task.dataset(name)
        found = np.full((len(dataset), len(self.domains)), np.nan, dtype=np.float32)
        for batch in self._batches(dataset):
            found[batch["id"].numpy()] = self._of_batch(batch).cpu().numpy()
        return found

    def _batches(self, dataset: Any) -> Iterator[dict[str, Any]]:
        limits = utils.resolve_max_positions(self.task.max_positions(), self.model.max_positions())
        return self.task.get_batch_iterator(
            dataset, max_tokens=self.max_tokens, max_positions=limits, disable_iterator_cache=True
        ).next_epoch_itr(shuffle=False)

    @torch.no_grad()
    def _of_batch(self, batch: dict[str, Any]) -> Tensor:
        """B×D."""
        batch = utils.apply_to_sample(lambda tensor: tensor.to(next(self.model.parameters()).device), batch)
        target = batch["target"]
        way = STEPS["bfloat16"] if self.precision is torch.bfloat16 else CpuStep()
        score = way.around(self._of_adapter)
        return torch.stack([score(batch["net_input"], target, row) for row in range(len(self.domains))], 1)

    def _of_adapter(self, net_input: dict[str, Any], target: Tensor, row: int) -> Tensor:
        """B."""
        chosen = torch.full((len(target),), row, device=target.device)
        routes = {"domain_ids": chosen, "is_forced": torch.ones_like(chosen, dtype=torch.bool)}
        features, _ = self.model(**{**net_input, **routes}, features_only=True)
        is_token = target.ne(self.task.target_dictionary.pad())
        # 1×N×V: of most models, nothing is as much work as the words' logits, so none are computed of padding.
        logits = self.model.decoder.output_layer(features[is_token].unsqueeze(0))
        losses = features.new_zeros(target.shape, dtype=torch.float32)
        losses[is_token] = F.cross_entropy(logits.squeeze(0).float(), target[is_token], reduction="none")
        return losses.sum(1)
