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


@dataclass(frozen=True)
class RowGroup:
    """Rows of a batch that pass the same adapters with the same weights.

    Attributes:
        rows: their indices; None for the whole batch.
        adapters: those with a weight other than zero; none for rows that stay as they are.
        weights: of these adapters; None for a single one, whose weight is 1.
    """

    rows: Tensor | None
    adapters: list[int]
    weights: Tensor | None


@dataclass
class RoutingBatch:
    """What routers may know of the batch that passes through a stack of layers, and what they leave.

    Attributes:
        padding_mask: B×T, True = pad; None for no padding.
        given_weights: B×D, or 1×D for all rows alike: routing weights that are known before the model runs. A row sums
            to one, or is zero throughout: no adapter.
        is_forced: B, rows in which the given weights take the place of a gate's; None for no row.
        incremental_state: fairseq's, in cached decoding.
        gate_logits: filled by gate routers, one tensor a layer, before any temperature.
    """

    padding_mask: Tensor | None = None
    given_weights: Tensor | None = None
    is_forced: Tensor | None = None
    incremental_state: dict | None = None
    gate_logits: list[Tensor] = field(default_factory=list)

    @cached_property
    def groups(self) -> list[RowGroup]:
        """The rows by their given weights; found once for all layers."""
        assert self.given_weights is not None
        kinds, kind_of_row = self.given_weights.unique(dim=0, return_inverse=True)
        groups = []
        for kind, weights in enumerate(kinds):
            adapters = weights.nonzero().squeeze(1)
            groups.append(
                RowGroup(
                    rows=None if len(kinds) == 1 else (kind_of_row == kind).nonzero().squeeze(1),
                    adapters=adapters.tolist(),
                    weights=weights[adapters] if len(adapters) != 1 else None,
                )
            )
        return groups

    def force(self, weights: Tensor) -> Tensor:
        """The given weights in the rows that are forced, a gate's own in the others.

        Shape:
            weights: T×B×D; result: T×B×D
        """
        if self.is_forced is None:
            return weights
        assert self.given_weights is not None
        return torch.where(self.is_forced.unsqueeze(1), self.given_weights.to(weights), weights)


class GivenRouter(nn.Module):
    """Weights given with the batch: one adapter of the sentence's domain, or those on a path of a domain tree.

    Only adapters with some weight are computed, and each only for its rows.
    """

    def forward(self, x: Tensor, bank: AdapterBank, batch: RoutingBatch) -> Tensor:
        """
        Shape:
            x: T×B×H; result: T×B×H

        Raises:
            ValueError: if the batch brings no weights, or those of another number of rows.
        """
        if batch.given_weights is None:
            raise ValueError("these adapters need to be told the domain or path of every sentence")
        if len(batch.given_weights) not in (1, x.size(1)):
            raise ValueError(f"there are routing weights for {len(batch.given_weights)} rows, but {x.size(1)} rows")
        groups = batch.groups
        if groups[0].rows is None:
            return _through(bank, x, groups[0])
        out = torch.empty_like(x)
        for group in groups:
            out[:, group.rows] = _through(bank, x[:, group.rows], group)
        return out


def _through(bank: AdapterBank, x: Tensor, group: RowGroup) -> Tensor:
    return bank(x, group.weights, active=group.adapters) if group.adapters else x


class GateRouter(nn.Module):
    """Gated adapters: a learned gate mixes all adapters (Klimaszewski et al. 2023, §2.2.1, Eq. 2-3).

    ``weights = softmax(g / β)`` with ``g = W_g · mean(x)``. Projection and mean commute, so the D scores
    of every position are averaged rather than its H features: the same numbers, and a running state of D
    floats a sentence. Encoders average over the sentence, decoders over positions 1…t. Rows that the batch
    forces take its weights instead.

    Args:
        embed_dim: H.
        num_adapters: D.
        temperature: β, above 0.
        causal: average over the prefix (decoder) instead of the whole sequence (encoder).

    Raises:
        ValueError: if ``temperature`` is not positive.
    """

    row_names = ("weight",)  # the parameters with one row an adapter

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
        # The residual stream is not normalised here: autocast would round it, and make large values infinite.
        with torch.autocast(x.device.type, enabled=False):
            scores = F.linear(x, self.weight.to(x.dtype))
        if self.running_mean is None:
            return sequence_mean(scores, batch.padding_mask)
        return self.running_mean(scores, batch.padding_mask, batch.incremental_state)

    def forward(self, x: Tensor, bank: AdapterBank, batch: RoutingBatch) -> Tensor:
        logits = self.gate_logits(x, batch)
        batch.gate_logits.append(logits)
        return bank(x, batch.force((logits / self.temperature).softmax(-1)))
