"""Cross-entropy over the symbols of a text and a random sample of all others, without the logits of the rest."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

_ROWS = 256  # positions computed at once: enough for fast products, and few enough for the processor's cache


class SampledOutput:
    """An output layer over the symbols that are in use, and k of the N others, which are drawn anew for each loss.

    The logits of the drawn symbols are raised by ``log(N / k)``, so that the softmax's denominator is that of all V
    symbols in expectation (importance sampling; Bengio & Senécal 2008). Symbols that are not in use are thus learned to
    be unlikely, as with the full softmax, although no target is one of them. With k = N, loss and gradient are those of
    the full softmax.

    Args:
        is_used: V, whether a symbol is in use; all targets must be.
        num_samples: k; all others are drawn if there are fewer.
    """

    def __init__(self, is_used: Tensor, num_samples: int = 1000):
        self.used, self.others = is_used.nonzero().flatten(), (~is_used).nonzero().flatten()
        self.num_samples = min(num_samples, len(self.others))
        self._place = is_used.cumsum(0) - 1  # V, of each used symbol among the used
        self._frozen: Tensor | None = None

    def loss(self, features: Tensor, weight: Tensor, bias: Tensor | None, target: Tensor) -> Tensor:
        """Return the summed cross-entropy of the targets.

        Shape:
            features: N×H; weight: V×H; bias: V; target: N; result: scalar
        """
        drawn = self.others[torch.randperm(len(self.others), device=self.others.device)[: self.num_samples]]
        raised = weight.new_zeros(len(self.used) + len(drawn), dtype=torch.float32)
        raised[len(self.used) :] = math.log(len(self.others) / max(1, len(drawn)))
        if bias is not None:
            raised += torch.cat([bias[self.used], bias[drawn]])
        rows = torch.cat([self._used_rows(weight), weight[drawn]])
        loss: Tensor = _LinearCrossEntropy.apply(features, rows, raised, self._place[target])
        return loss

    def _used_rows(self, weight: Tensor) -> Tensor:
        """Return the rows of the used symbols; those of a frozen table are selected once."""
        if weight.requires_grad:
            return weight[self.used]
        if self._frozen is None:
            self._frozen = weight[self.used]
        return self._frozen


class _LinearCrossEntropy(torch.autograd.Function):
    """Sum of ``-log softmax(x·Wᵀ + b)[target]``, in blocks of rows whose gradients are computed at once.

    So the logits of a batch are never stored. Under autocast, products are in its precision, as in a linear layer.
    """

    @staticmethod
    def forward(ctx: Any, features: Tensor, weight: Tensor, bias: Tensor, target: Tensor) -> Tensor:
        device = features.device.type
        product = torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else weight.dtype
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
