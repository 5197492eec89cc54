"""The mean over the positions seen so far, in training and step by step."""

from __future__ import annotations

import uuid

from torch import Tensor, nn


class RunningMean(nn.Module):
    """Mean over positions 1…t that are no padding, for every t (Klimaszewski et al. 2023, Eq. 3).

    In training this is one cumulative sum; in incremental decoding a sum and a count per sentence live in
    fairseq's incremental state and are reordered with the beam. Both give the same numbers.

    Shape:
        x: T×B×D; padding_mask: B×T (True = pad) or None; result: T×B×D in float32
    """

    def __init__(self) -> None:
        super().__init__()
        # Every module needs a place of its own in fairseq's one dictionary of states.
        self.state_key = f"{uuid.uuid4()}.running_mean"

    def forward(self, x: Tensor, padding_mask: Tensor | None = None, incremental_state: dict | None = None) -> Tensor:
        x = x.float()  # sums over hundreds of positions need more than half precision
        count = x.new_ones(x.shape[:2] + (1,))
        if padding_mask is not None:
            count = padding_mask.logical_not().t().unsqueeze(-1).to(x)
            x = x * count
        total, count = x.cumsum(0), count.cumsum(0)
        if incremental_state is not None:
            total, count = self._continue(total, count, incremental_state)
        # A position before the first real token has count 0; its mean is 0.
        return total / count.clamp(min=1)

    def _continue(self, total: Tensor, count: Tensor, incremental_state: dict) -> tuple[Tensor, Tensor]:
        """Add what earlier steps summed, and store the new sums (each 1×B×…)."""
        saved = incremental_state.get(self.state_key)
        if saved is not None:
            total, count = total + saved["total"], count + saved["count"]
        incremental_state[self.state_key] = {"total": total[-1:], "count": count[-1:]}
        return total, count

    def reorder_incremental_state(self, incremental_state: dict, new_order: Tensor) -> None:
        """Follow the beam: row i of the state becomes row ``new_order[i]``."""
        saved = incremental_state.get(self.state_key)
        if saved is not None:
            incremental_state[self.state_key] = {k: value.index_select(1, new_order) for k, value in saved.items()}


def sequence_mean(x: Tensor, padding_mask: Tensor | None = None) -> Tensor:
    """Mean over all positions that are no padding.

    Shape:
        x: T×B×D; padding_mask: B×T (True = pad) or None; result: 1×B×D in float32
    """
    x = x.float()
    if padding_mask is None:
        return x.mean(0, keepdim=True)
    keep = padding_mask.logical_not().t().unsqueeze(-1).to(x)  # T×B×1
    return (x * keep).sum(0, keepdim=True) / keep.sum(0, keepdim=True).clamp(min=1)
