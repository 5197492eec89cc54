"""Cross-entropy over some symbols and random samples of the others, without the logits of the rest."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from fairseq_ext.modules.autocast import autocast_dtype

_ROWS = 256  # positions computed at once: enough for fast products, and few enough for the processor's cache


class SampledOutput:
    """An output layer over fixed symbols, the targets of the batch, and samples of all others, drawn for each loss.

    The others are in groups. If k of a group's N symbols that are no targets are drawn, the logits of these are raised
    by ``log(N / k)``, so that the softmax's denominator is that of all symbols in expectation (importance sampling;
    Bengio & Senécal 2008). Symbols that are rarely computed are thus learned to be unlikely, as with the full softmax.
    If all are drawn, loss and gradient are those of the full softmax.

    Args:
        fixed: numbers of the symbols that are always computed.
        groups: numbers of the symbols of each group, and k; together with ``fixed`` all V symbols.
    """

    def __init__(self, fixed: Tensor, groups: Sequence[tuple[Tensor, int]]):
        self.fixed, self.groups = fixed, groups
        self._size = len(fixed) + sum(len(numbers) for numbers, _ in groups)
        self._frozen: Tensor | None = None

    def loss(self, features: Tensor, weight: Tensor, bias: Tensor | None, target: Tensor) -> Tensor:
        """Return the summed cross-entropy of the targets.

        Shape:
            features: N×H; weight: V×H; bias: V; target: N; result: scalar
        """
        others, raised = self._draw(target)
        if bias is not None:
            raised = raised + torch.cat([bias[self.fixed], bias[others]])
        place = target.new_zeros(self._size)
        place[torch.cat([self.fixed, others])] = torch.arange(len(raised), device=target.device)
        rows = torch.cat([self._fixed_rows(weight), weight[others]])
        loss: Tensor = _LinearCrossEntropy.apply(features, rows, raised, place[target])
        return loss

    def _draw(self, target: Tensor) -> tuple[Tensor, Tensor]:
        """Return the numbers of symbols to compute besides the fixed ones, and what is added to all logits."""
        is_wanted = torch.zeros(self._size, dtype=torch.bool, device=target.device)
        is_wanted[target] = True
        is_wanted[self.fixed] = False
        found, raised = [is_wanted.nonzero().flatten()], [torch.zeros(len(self.fixed) + int(is_wanted.sum()))]
        for numbers, count in self.groups:
            left = numbers[~is_wanted[numbers]]
            drawn = left[torch.randperm(len(left), device=left.device)[:count]]
            found.append(drawn)
            raised.append(torch.full((len(drawn),), math.log(len(left) / max(1, len(drawn))) if len(left) else 0.0))
        return torch.cat(found), torch.cat(raised).to(target.device)

    def _fixed_rows(self, weight: Tensor) -> Tensor:
        """Return the rows of the fixed symbols; those of a frozen table are selected once."""
        if weight.requires_grad:
            return weight[self.fixed]
        if self._frozen is None:
            self._frozen = weight[self.fixed]
        return self._frozen


class _LinearCrossEntropy(torch.autograd.Function):
    """Sum of ``-log softmax(x·Wᵀ + b)[target]``, in blocks of rows whose gradients are computed at once.

    So the logits of a batch are never stored. Under autocast, products are in its precision, as in a linear layer.
    """

    @staticmethod
    def forward(ctx: Any, features: Tensor, weight: Tensor, bias: Tensor, target: Tensor) -> Tensor:
        product = autocast_dtype(weight)
        trains_weight = ctx.needs_input_grad[1]
        ctx.dtypes = features.dtype, weight.dtype
        features, weight = features.to(product), weight.to(product)
        by_features = torch.empty_like(features, dtype=torch.float32)
        by_weight = torch.zeros_like(weight, dtype=torch.float32) if trains_weight else None
        loss = bias.new_zeros(())
        for start in range(0, len(features), _ROWS):
            some, wanted = features[start : start + _ROWS], target[start : start + _ROWS].unsqueeze(1)
            logits = (some @ weight.t()).float().add_(bias)
            norm = logits.logsumexp(1, keepdim=True)
            loss += (norm - logits.gather(1, wanted)).sum()
            slope = logits.sub_(norm).exp_()
            slope.scatter_add_(1, wanted, slope.new_full((), -1.0).expand_as(wanted))
            slope = slope.to(product)
            by_features[start : start + _ROWS] = slope @ weight
            if by_weight is not None:
                by_weight += slope.t() @ some
        ctx.save_for_backward(by_features, by_weight)
        return loss

    @staticmethod
    def backward(ctx: Any, scale: Tensor) -> tuple[Tensor | None, ...]:
        gradients = [value if value is None else value * scale for value in ctx.saved_tensors]
        kinds = zip(gradients, ctx.dtypes, strict=True)
        return *(value if value is None else value.to(kind) for value, kind in kinds), None, None
