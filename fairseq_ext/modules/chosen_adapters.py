"""Sparse adapters: each adapter of a bank is computed only for the positions that chose it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from torch import Tensor


class Choice(NamedTuple):
    """The positions of a batch that chose an adapter."""

    adapter: int
    positions: Tensor  # n, in ascending order, among the N positions of the batch
    entries: Tensor  # n, where the weights of these choices are among the N·k of the batch


class Chosen(NamedTuple):
    """The adapters that all N positions of a batch chose."""

    choices: Sequence[Choice]
    weights: Tensor  # N×k
    active: Sequence[int] | None = None  # the adapters among which they chose; None for all


def choose(weights: Tensor, x: Tensor, k: int, active: Sequence[int] | None = None) -> Chosen:
    """Return the adapters that positions choose, with the weights of these choices; synchronises with a device once.

    An adapter whose weight is zero is not computed. The first adapter is always there, so that an output depends on
    the bank's parameters even if no position chose any.

    Args:
        weights: weights of all D adapters. Those of a position sum to one, or are all zero (no adapter).
        x: hidden states; only the shape is used.
        k: number of adapters per position, those with the largest weights.
        active: the numbers of these D adapters in their bank; None if they are all.

    Shape:
        weights: broadcastable to T×B×D; x: T×B×H; result: for N = T·B positions
    """
    num_adapters = weights.size(-1)
    weights, adapters = (part.expand(*x.shape[:2], k).flatten(0, 1) for part in weights.topk(k, dim=-1))
    # Sorted by adapter; choices without a weight have the number D and are last.
    keys = adapters.where(weights.ne(0), num_adapters).flatten()
    counts = keys.bincount(minlength=num_adapters + 1).tolist()
    parts = keys.argsort(stable=True).split(counts)
    choices = [Choice(n, part // k, part) for n, part in enumerate(parts[:-1]) if len(part) or n == 0]
    return Chosen(choices, weights, active)


def mix(inputs: Tensor, chosen: Chosen, width: int, adapt: Callable[[int, Tensor], Tensor]) -> Tensor:
    """Return the weighted sum of the adapters that each position chose.

    Args:
        width: P.
        adapt: computes an adapter, given by its number: n×H → n×P.

    Shape:
        inputs: N×H; result: N×P
    """
    mixed = inputs.new_zeros(len(inputs), width)
    weights = chosen.weights.flatten().to(inputs.dtype)  # float32 under autocast
    for adapter, positions, entries in chosen.choices:
        # A position is among the positions of an adapter at most once.
        mixed.index_add_(0, positions, adapt(adapter, inputs[positions]) * weights[entries].unsqueeze(1))
    return mixed
