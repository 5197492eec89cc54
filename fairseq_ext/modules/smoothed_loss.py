"""Cross-entropy with label smoothing that passes over the logits twice, and keeps nothing of their size but them."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

_NUMBERS_AT_ONCE = 1 << 18  # of logits: float32 copies that fit a core's cache


class SmoothedLoss(torch.autograd.Function):
    """fairseq's ``(1 - ε - ε_i)·nll + ε_i·smooth``, ε_i = ε/(V-1), summed, and its nll (Szegedy et al. 2016, §7).

    With ``z`` the logits of a position and ``y`` its target, ``nll = lse(z) - z_y`` and ``smooth = V·lse(z) - Σz``. The
    weights of ``lse`` sum to one, so the gradient is ``softmax(z) - ε_i``, less ``1 - ε - ε_i`` at ``y``. Logits of any
    type are computed with in float32, some rows at a time.

    Shape:
        logits: N×V; target: N; loss, nll: scalars, float32
    """

    @staticmethod
    def forward(ctx: Any, logits: Tensor, target: Tensor, epsilon: float, pad: int) -> tuple[Tensor, Tensor]:
        size = logits.size(-1)
        share = epsilon / (size - 1)
        keep = target.ne(pad)
        totals, sums = [], []
        for rows in _parts(logits):
            part = rows.float()
            totals.append(part.logsumexp(-1))
            sums.append(part.sum(-1))
        total, chosen = torch.cat(totals), logits.gather(-1, target.unsqueeze(-1)).squeeze(-1).float()
        nll = (total - chosen)[keep].sum()
        smooth = (size * total - torch.cat(sums))[keep].sum()
        ctx.save_for_backward(logits, target, total, keep)
        ctx.share, ctx.weight = share, 1 - epsilon - share
        ctx.mark_non_differentiable(nll)
        return (1 - epsilon - share) * nll + share * smooth, nll

    @staticmethod
    def backward(ctx: Any, grad: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:  # type: ignore[override]
        logits, target, total, keep = ctx.saved_tensors
        out = torch.empty_like(logits)
        scale = (grad * keep).unsqueeze(-1)  # N×1
        at_target = torch.full_like(total, -ctx.weight).unsqueeze(-1)
        values = (logits, total.unsqueeze(-1), target.unsqueeze(-1), at_target, scale, out)
        for z, lse, column, weight, factor, result in zip(*(_parts(value, logits) for value in values), strict=True):
            part = (z.float() - lse).exp_().sub_(ctx.share).scatter_add_(-1, column, weight)
            result.copy_(part.mul_(factor))
        return out, None, None, None


def smoothed_loss(logits: Tensor, target: Tensor, epsilon: float, pad: int) -> tuple[Tensor, Tensor]:
    """The loss and its nll, both summed over positions whose target is not ``pad``; see :class:`SmoothedLoss`."""
    loss, nll = SmoothedLoss.apply(logits, target, epsilon, pad)
    return loss, nll


def _parts(value: Tensor, like: Tensor | None = None) -> tuple[Tensor, ...]:
    """Rows of a tensor, as many at once as of logits fit."""
    return value.split(max(1, _NUMBERS_AT_ONCE // (value if like is None else like).size(-1)))
