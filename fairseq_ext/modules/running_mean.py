"""Mean over the positions so far, in training and in incremental decoding."""

from __future__ import annotations

import uuid
from functools import cached_property

import torch
from torch import Tensor, nn


class Positions:
    """Non-padding positions of a batch and their counts, from a mask B×T (True: pad); cached for all layers."""

    def __init__(self, padding_mask: Tensor | None = None):
        self.padding_mask = padding_mask

    @cached_property
    def keep(self) -> Tensor | None:
        """T×B×1, float32: 1 for tokens and 0 for padding; None without a padding mask."""
        if self.padding_mask is None:
            return None
        mask = self.padding_mask.t().unsqueeze(-1)
        return torch.logical_not(mask, out=torch.empty(mask.shape, device=mask.device))

    @cached_property
    def count(self) -> Tensor:
        """1×B×1, number of non-padding positions, at least 1."""
        assert self.keep is not None
        return self.keep.sum(0, keepdim=True).clamp(min=1)

    @cached_property
    def running_count(self) -> Tensor:
        """T×B×1, number of non-padding positions up to each, at least 1."""
        assert self.keep is not None
        return self.keep.cumsum(0).clamp(min=1)


class RunningMean(nn.Module):
    """Mean over the non-padding positions 1…t, for every t (Klimaszewski et al. 2023, Eq. 3).

    In training this is one cumulative sum. Incremental decoding, which has no padding, keeps a sum per sentence and a
    count in fairseq's incremental state, reordered with the beam. Both give the same numbers. The mean is 0 before the
    first real token.

    Shape:
        x: T×B×D; result: T×B×D in float32
    """

    def __init__(self) -> None:
        super().__init__()
        # Modules share one dictionary in fairseq, so each needs a unique key.
        self.state_key = f"{uuid.uuid4()}.running_mean"

    def forward(self, x: Tensor, positions: Positions | None = None) -> Tensor:
        x = x.float()  # half precision is too low for sums over hundreds of positions
        if positions is None or positions.keep is None:
            return x.cumsum(0) / torch.arange(1, len(x) + 1, device=x.device).view(-1, 1, 1)
        return (x * positions.keep).cumsum(0) / positions.running_count

    def step(self, x: Tensor, incremental_state: dict, scale: float = 1.0) -> Tensor:
        """Add the next position and return the mean so far, divided by ``scale``: 1×B×D → 1×B×D."""
        total, count = x.float(), 1
        saved = incremental_state.get(self.state_key)
        if saved is not None:
            total, count = total + saved["total"], count + saved["count"]
        incremental_state[self.state_key] = {"total": total, "count": count}
        return total / (count * scale)

    def reorder_incremental_state(self, incremental_state: dict, new_order: Tensor) -> None:
        """Reorder the state with the beam: row i of the result is row ``new_order[i]`` of the state."""
        saved = incremental_state.get(self.state_key)
        if saved is not None:
            incremental_state[self.state_key] = saved | {"total": saved["total"].index_select(1, new_order)}


def sequence_mean(x: Tensor, positions: Positions | None = None) -> Tensor:
    """Return the mean over all non-padding positions in float32: T×B×D → 1×B×D."""
    x = x.float()
    if positions is None or positions.keep is None:
        return x.mean(0, keepdim=True)
    return (x * positions.keep).sum(0, keepdim=True) / positions.count
