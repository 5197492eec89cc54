"""Cross-entropy with label smoothing, computed with its gradient for some rows at a time."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

_BLOCK = 2**17  # numbers in float32 that a core's cache holds


class BlockwiseCrossEntropy(torch.autograd.Function):
    """fairseq's label-smoothed cross-entropy (Szegedy et al. 2016, §7), summed over the rows that have a target.

    Log-probabilities, their gradient and its parts are as large as the logits each, V numbers a token in float32, and
    pass through the memory one after the other. Here a block of rows stays in the cache from its logits to their
    gradient, ``p (1 - ε + ε / V') - ε / V' - [target] (1 - ε - ε / V')``, with V' for V - 1, as fairseq has it.

    Shape:
        logits: N×V of any floating type; target: N; loss, nll_loss: scalars in float32, of which the loss alone has
            a gradient
    """

    @staticmethod
    def forward(ctx: Any, logits: Tensor, target: Tensor, epsilon: float, padding: int) -> tuple[Tensor, Tensor]:
        """The smoothed loss and the loss of the targets alone, in nats."""
        size = logits.size(1)
        each = epsilon / (size - 1)
        true = 1 - epsilon - each
        column, is_padding = target.unsqueeze(1), target.eq(padding).unsqueeze(1)
        grad = torch.empty_like(logits) if ctx.needs_input_grad[0] else None
        losses, others = [], []
        rows = max(1, _BLOCK // size)
        for start in range(0, len(logits), rows):
            block = slice(start, start + rows)
            x = logits[block].float()
            x = x - x.amax(1, keepdim=True)
            of_target = x.gather(1, column[block])
            of_all = x.sum(1, keepdim=True) if epsilon else torch.zeros_like(of_target)
            mass = x.exp_().sum(1, keepdim=True)
            log_mass = mass.log()
            losses.append((log_mass - of_target).masked_fill_(is_padding[block], 0).sum())
            others.append((log_mass * size - of_all).masked_fill_(is_padding[block], 0).sum())
            if grad is not None:
                x.mul_((true + each * size) / mass).sub_(each)
                x.scatter_add_(1, column[block], torch.full_like(of_target, -true))
                grad[block] = x.masked_fill_(is_padding[block], 0)
        ctx.save_for_backward(grad)
        nll_loss = torch.stack(losses).sum()
        ctx.mark_non_differentiable(nll_loss)
        return true * nll_loss + each * torch.stack(others).sum(), nll_loss

    @staticmethod
    def backward(ctx: Any, grad: Tensor, _: Tensor) -> tuple[Tensor, None, None, None]:  # type: ignore[override]
        (of_logits,) = ctx.saved_tensors
        return of_logits if grad == 1 else of_logits * grad, None, None, None


def blockwise_cross_entropy(logits: Tensor, target: Tensor, epsilon: float, padding: int) -> tuple[Tensor, Tensor]:
    """The loss with label smoothing ``epsilon``, and without; rows whose target is ``padding`` have none."""
    loss, nll_loss = BlockwiseCrossEntropy.apply(logits, target, epsilon, padding)
    return loss, nll_loss
