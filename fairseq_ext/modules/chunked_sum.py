"""A sum over tokens whose gradients are found along with it, a chunk at a time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

OfTokens = Callable[[Tensor, Tensor], Tensor]


def chunked_sum(function: OfTokens, hidden: Tensor, targets: Tensor, parameters: Sequence[Tensor], size: int) -> Tensor:
    """``Σ_n function(hidden_n, targets_n)``, in memory that does not grow with the number of tokens.

    Each chunk goes forward and backward before the next one begins, so nothing of it is kept but its share of the
    gradients, and nothing is computed twice, as it would be if the backward pass made it again. The sums are at least
    float32. The gradients do not know of a loss scale: train in bfloat16 rather than in scaled float16.

    Args:
        function: of some tokens' states (c×H) and targets (c); one number a token.
        hidden: the states of all tokens.
        targets: what belongs to them.
        parameters: all that the function uses and that may have a gradient.
        size: tokens in a chunk, at least 1.

    Shape:
        hidden: N×H; targets: N; result: scalar
    """
    if torch.is_grad_enabled() and any(tensor.requires_grad for tensor in (hidden, *parameters)):
        total: Tensor = _ChunkedSum.apply(function, size, hidden, targets, *parameters)
        return total
    total = hidden.new_zeros((), dtype=_wide(hidden))
    for chunk in zip(hidden.split(size), targets.split(size), strict=True):
        total += function(*chunk).sum()
    return total


class _ChunkedSum(torch.autograd.Function):
    """The sum, which has all its gradients when it comes out of the forward pass."""

    @staticmethod
    def forward(
        ctx: Any, function: OfTokens, size: int, hidden: Tensor, targets: Tensor, *parameters: Tensor
    ) -> Tensor:
        total = hidden.new_zeros((), dtype=_wide(hidden))
        trained = [parameter for parameter in parameters if parameter.requires_grad]
        sums = [torch.zeros_like(parameter, dtype=_wide(parameter)) for parameter in trained]
        hidden_grads = []
        for states, goals in zip(hidden.split(size), targets.split(size), strict=True):
            states = states.detach().requires_grad_(hidden.requires_grad)
            leaves = [*trained, states] if hidden.requires_grad else trained
            with torch.enable_grad():
                value = function(states, goals).sum()
            grads = torch.autograd.grad(value, leaves, materialize_grads=True)
            for so_far, grad in zip(sums, grads, strict=False):  # the states' own comes last
                so_far += grad
            if hidden.requires_grad:
                hidden_grads.append(grads[-1])
            total += value.detach()
        remaining = iter(sums)
        ctx.grads = [
            torch.cat(hidden_grads) if hidden_grads else None,
            None,
            *(next(remaining) if parameter.requires_grad else None for parameter in parameters),
        ]
        return total

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:  # type: ignore[override]
        return None, None, *(None if own is None else own * grad for own in ctx.grads)


def _wide(tensor: Tensor) -> torch.dtype:
    """The type in which many such numbers can be added up."""
    return torch.promote_types(tensor.dtype, torch.float32)
