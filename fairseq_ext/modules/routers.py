"""Routers: who decides with what weight each adapter of a bank takes part.

A router applies a bank to hidden states under the routing weights it finds. What it may look at besides
the hidden states is in ``RoutingBatch``, one object per batch and stack of layers.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from fairseq_ext.modules.adapter_bank import AdapterBank
from fairseq_ext.modules.running_mean import RunningMean, sequence_mean


@dataclass
class RoutingBatch:
    """What routers may know of the batch that passes through a stack of layers, and what they leave.

    Attributes:
        padding_mask: B×T, True = pad; None for no padding.
        domain_ids: B, the sentences' domains, where known.
        incremental_state: fairseq's, in cached decoding.
        gate_logits: filled by gate routers, one tensor a layer, before any temperature.
    """

    padding_mask: Tensor | None = None
    domain_ids: Tensor | None = None
    incremental_state: dict | None = None
    gate_logits: list[Tensor] = field(default_factory=list)

    @cached_property
    def rows_by_domain(self) -> list[tuple[int, Tensor]]:
        """The domains that occur, each with the indices of its rows; found once for all layers."""
        assert self.domain_ids is not None
        return [(d, (self.domain_ids == d).nonzero().squeeze(1)) for d in self.domain_ids.unique().tolist()]


class DomainRouter(nn.Module):
    """Plain adapters: each sentence goes through the adapter of its domain, the others are not computed."""

    def forward(self, x: Tensor, bank: AdapterBank, batch: RoutingBatch) -> Tensor:
        """
        Shape:
            x: T×B×H; result: T×B×H

        Raises:
            ValueError: if the batch says nothing of its domains.
        """
        if batch.domain_ids is None:
            raise ValueError("plain adapters need domain_ids: the domain of every sentence")
        groups = batch.rows_by_domain
        if len(groups) == 1:
            return bank(x, None, active=[groups[0][0]])
        out = torch.empty_like(x)
        for domain, rows in groups:
            out[:, rows] = bank(x[:, rows], None, active=[domain])
        return out


class GateRouter(nn.Module):
    """Gated adapters: a learned gate mixes all adapters (Klimaszewski et al. 2023, §2.2.1, Eq. 2-3).

    ``weights = softmax(g / β)`` with ``g = W_g · mean(x)``. Projection and mean commute, so the D scores
    of every position are averaged rather than its H features: the same numbers, and a running state of D
    floats a sentence. Encoders average over the sentence, decoders over positions 1…t.

    Args:
        embed_dim: H.
        num_adapters: D.
        temperature: β, above 0.
        causal: average over the prefix (decoder) instead of the whole sequence (encoder).

    Raises:
        ValueError: if ``temperature`` is not positive.
    """

    def __init__(self, embed_dim: int, num_adapters: int, temperature: float, causal: bool):
        super().__init__()
        if temperature <= 0:
            raise ValueError(f"the gate temperature must be positive, not {temperature}")
        self.temperature = temperature
        self.weight = nn.Parameter(torch.zeros(num_adapters, embed_dim))  # even weights at the start
        self.running_mean = RunningMean() if causal else None

    def gate_logits(self, x: Tensor, batch: RoutingBatch) -> Tensor:
        """
        Shape:
            x: T×B×H; result: T×B×D for a causal router, else 1×B×D, float32
        """
        scores = F.linear(x, self.weight)
        if self.running_mean is None:
            return sequence_mean(scores, batch.padding_mask)
        return self.running_mean(scores, batch.padding_mask, batch.incremental_state)

    def forward(self, x: Tensor, bank: AdapterBank, batch: RoutingBatch) -> Tensor:
        logits = self.gate_logits(x, batch)
        batch.gate_logits.append(logits)
        return bank(x, (logits / self.temperature).softmax(-1))
