"""The mean over the positions seen so far, in training and step by step."""

from __future__ import annotations

import uuid
from functools import cached_property

import torch
from torch import Tensor, nn


class Positions:
    """Which positions of a batch are no padding, by a mask B×T (True: pad), and how many; found once for all layers."""

    def __init__(self, padding_mask: Tensor | None = None):
        self.padding_mask = padding_mask

    @cached_property
    def keep(self) -> Tensor | None:
        """T×B×1, 1 for positions that are no padding and 0 for others, in float32; None for no padding."""
        if self.padding_mask is None:
            return None
        mask = self.padding_mask.t().unsqueeze(-1)
        return torch.logical_not(mask, out=torch.empty(mask.shape, device=mask.device))

    @cached_property
    def count(self) -> Tensor:
        """1×B×1, how many there are that are no padding, and 1 where there is none."""
        assert self.keep is not None
        return self.keep.sum(0, keepdim=True).clamp(min=1)

    @cached_property
    def running_count(self) -> Tensor:
        """T×B×1, the same of the positions up to each."""
        assert self.keep is not None
        return self.keep.cumsum(0).clamp(min=1)


class RunningMean(nn.Module):
    """Mean over positions 1…t that are no padding, for every t (Klimaszewski et al. 2023, Eq. 3).

    In training this is one cumulative sum; in incremental decoding, which writes no padding, a sum per sentence and how
    many it is of live in fairseq's incremental state and are reordered with the beam. Both give the same numbers.
    A position before the first real token has the mean 0.

    Shape:
        x: T×B×D; result: T×B×D in float32
    """

    def __init__(self) -> None:
        super().__init__()
        # Every module needs a place of its own in fairseq's one dictionary of states.
        self.state_key = f"{uuid.uuid4()}.running_mean"

    def forward(self, x: Tensor, positions: Positions | None = None) -> Tensor:
        x = x.float()  # sums over hundreds of positions need more than half precision
        if positions is None or positions.keep is None:
            return x.cumsum(0) / torch.arange(1, len(x) + 1, device=x.device).view(-1, 1, 1)
        return (x * positions.keep).cumsum(0) / positions.running_count

    def step(self, x: Tensor, incremental_state: dict, scale: float = 1.0) -> Tensor:
        """The mean of the position after those of earlier steps, over a scale: 1×B×D → 1×B×D."""
        total, count = x.float(), 1
        saved = incremental_state.get(self.state_key)
        if saved is not None:
            total, count = total + saved["total"], count + saved["count"]
        incremental_state[self.state_key] = {"total": total, "count": count}
        return total / (count * scale)

    def reorder_incremental_state(self, incremental_state: dict, new_order: Tensor) -> None:
        """Follow the beam: row i of the state becomes row ``new_order[i]``."""
        saved = incremental_state.get(self.state_key)
        if saved is not None:
            incremental_state[self.state_key] = saved | {"total": saved["total"].index_select(1, new_order)}


def sequence_mean(x: Tensor, positions: Positions | None = None) -> Tensor:
    """Mean over all positions that are no padding: T×B×D → 1×B×D in float32."""
    x = x.float()
    if positions is None or positions.keep is None:
        return x.mean(0, keepdim=True)
    return (x * positions.keep).sum(0, keepdim=True) / positions.count
