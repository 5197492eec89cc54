"""Dropout whose mask is drawn eight numbers at a time, where torch draws one after the other."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

_LEVELS = 256  # of a byte
_SMALLEST_WORD = -(2**63)


class ByteDropout(torch.autograd.Function):
    """Dropout by random bytes (Srivastava et al. 2014; Paszke et al. 2019 for the scaling in training).

    On a CPU torch fills a mask with one float after the other, on one thread. Here a draw of 64 bits makes eight bytes.
    The probability is rounded to a multiple of 1/256, and what is kept is scaled by the rounded one: the mean of a
    number is the number itself, as in torch.

    Shape:
        x, result: any
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, threshold: int) -> Tensor:
        """Set numbers to zero whose byte is below ``threshold``, 1 to 255, and scale the others."""
        is_kept = random_bytes(x.numel()).ge(threshold).view(x.shape)
        ctx.save_for_backward(is_kept)
        ctx.scale = _LEVELS / (_LEVELS - threshold)
        return (x * is_kept).mul_(ctx.scale)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:  # type: ignore[override]
        (is_kept,) = ctx.saved_tensors
        return (grad * is_kept).mul_(ctx.scale), None


def byte_dropout(x: Tensor, p: float) -> Tensor:
    """Drop numbers with a probability of ``p`` rounded to a multiple of 1/256, neither to 0 nor to 1."""
    threshold = min(max(round(p * _LEVELS), 1), _LEVELS - 1)
    dropped: Tensor = ByteDropout.apply(x, threshold)
    return dropped


def random_bytes(count: int) -> Tensor:
    """Random bytes of torch's generator for CPUs."""
    words = torch.empty((count + 7) // 8, dtype=torch.int64).random_(_SMALLEST_WORD, None)
    return words.view(torch.uint8)[:count]
