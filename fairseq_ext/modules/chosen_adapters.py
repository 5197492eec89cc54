"""Sparse adapters: the positions of a batch are sorted by the adapters that they use."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

# Limits of the block length of DeviceRows, which is half of an adapter's even share.
SHORTEST, LONGEST = 16, 512


def choose(weights: Tensor, x: Tensor, k: int, num_adapters: int, may_skip: bool = True) -> tuple[AdapterRows, Tensor]:
    """Return the rows of the adapters that the positions choose, and the weights of these adapters.

    Args:
        weights: weights of all adapters. Those of a position sum to one, or are all zero (no adapter).
        x: hidden states; only the shape and device are used.
        k: number of adapters per position, those with the largest weights.
        may_skip: whether some of these weights may be zero; such adapters are not computed.

    Shape:
        weights: broadcastable to T×B×D; x: T×B×H; result: rows of T·B positions, T·B×k
    """
    weights, adapters = (found.expand(*x.shape[:2], k).flatten(0, 1) for found in weights.topk(k, dim=-1))
    kept = weights.ne(0) if may_skip else None
    kind: type[AdapterRows] = HostRows if x.device.type == "cpu" else DeviceRows
    return kind(adapters, kept, num_adapters), weights


class HostRows:
    """N positions as R rows sorted by the D adapters; each position occurs once for each of its k adapters.

    The rows of an adapter are contiguous, and each adapter is one matrix product. Row counts are read on the host,
    which is free on a CPU.

    Attributes:
        entries: N×k, the row of each choice.
        kept: N×k, whether each choice is computed; None for all.
        bags: N, offset of each position's first entry.
    """

    def __init__(self, adapters: Tensor, kept: Tensor | None, num_adapters: int):
        keys = adapters.flatten() if kept is None else adapters.where(kept, num_adapters).flatten()
        counts = keys.bincount(minlength=num_adapters + 1)[:num_adapters].tolist()
        order = keys.argsort(stable=True)
        self.kept = None if kept is None or sum(counts) == len(keys) else kept
        self.order = order[: sum(counts)]
        places = torch.empty_like(order)
        places[order] = torch.arange(len(order)).clamp(max=max(sum(counts) - 1, 0))
        self.entries = places.view_as(adapters)
        self.num_adapters, self.num_choices = num_adapters, adapters.size(-1)
        self.bags = torch.arange(0, len(keys), self.num_choices)
        self.parts: list[tuple[int, slice]] = []  # adapters that have rows, with their row ranges
        start = 0
        for adapter, count in enumerate(counts):
            if count:
                self.parts.append((adapter, slice(start, start + count)))
            start += count

    def lay_out(self, x: Tensor) -> Tensor:
        """Copy the positions to their rows: N×P → R×P."""
        return x.index_select(0, self.order // self.num_choices)

    def multiply(self, rows: Tensor, factors: Tensor, offsets: Tensor | None = None) -> Tensor:
        """Multiply each row by its adapter's matrix: R×K, D×K×P and D×P → R×P."""
        out = rows.new_empty(len(rows), factors.size(-1))
        for adapter, part in self.parts:
            factor = factors[adapter].to(rows.dtype)
            if offsets is None:
                torch.mm(rows[part], factor, out=out[part])
            else:
                torch.addmm(offsets[adapter].to(rows.dtype), rows[part], factor, out=out[part])
        return out

    def product_by_adapter(self, left: Tensor, right: Tensor) -> Tensor:
        """Return ``left.T @ right`` over the rows of each adapter: R×K and R×P → D×K×P."""
        out = left.new_zeros(self.num_adapters, left.size(-1), right.size(-1))
        for adapter, part in self.parts:
            torch.mm(left[part].t(), right[part], out=out[adapter])
        return out

    def sum_by_adapter(self, rows: Tensor) -> Tensor:
        """Sum the rows of each adapter: R×P → D×P."""
        out = rows.new_zeros(self.num_adapters, rows.size(-1))
        for adapter, part in self.parts:
            torch.sum(rows[part], 0, out=out[adapter])
        return out

    def weights_of_rows(self, weights: Tensor) -> Tensor:
        """Return the weight of each row: N×k → R×1; zero for unused rows."""
        return weights.flatten().index_select(0, self.order).unsqueeze(1)


class DeviceRows:
    """:class:`HostRows` in blocks of one adapter each, with a fixed upper bound of blocks to avoid device syncs."""

    def __init__(self, adapters: Tensor, kept: Tensor | None, num_adapters: int):
        count = adapters.numel()
        self.kept = kept
        self.num_adapters, self.num_choices = num_adapters, adapters.size(-1)
        share = -(-count // (2 * num_adapters))
        self.length = min(max(-(-share // 8) * 8, SHORTEST), LONGEST)
        self.num_blocks = count // self.length + min(num_adapters, count)
        self.num_rows = self.num_blocks * self.length
        numbers = torch.arange(max(count, num_adapters + 1), device=adapters.device)
        self.bags = numbers[: count : self.num_choices]
        keys = adapters.flatten() if kept is None else adapters.where(kept, num_adapters).flatten()
        keys, self.order = keys.sort(stable=True)
        starts = torch.searchsorted(keys, numbers[: num_adapters + 1])
        lengths = starts.diff().add_(self.length - 1).div_(self.length, rounding_mode="floor").mul_(self.length)
        ends = lengths.cumsum(0)
        # Each adapter's first row minus the position of its first entry in the sorted order.
        moves = ends - lengths - starts[:-1]
        places = moves.index_select(0, keys.clamp(max=num_adapters - 1)) + numbers[:count]
        if kept is not None:  # skipped choices go to a row after all others
            places = places.where(keys < num_adapters, self.num_rows)
        self.places = places
        self.entries = torch.empty_like(places).scatter_(0, self.order, places.clamp(max=self.num_rows - 1))
        self.entries = self.entries.view_as(adapters)
        is_single = self.num_choices == 1
        self.sources = self._rows_of(
            self.order if is_single else self.order.div(self.num_choices, rounding_mode="floor")
        )
        first_rows = torch.arange(0, self.num_rows, self.length, device=adapters.device)
        self.adapters = torch.searchsorted(ends, first_rows, right=True).clamp_(max=num_adapters - 1)

    def _rows_of(self, values: Tensor) -> Tensor:
        """Scatter values in sorted order to their rows; result: R."""
        return values.new_zeros(self.num_rows + 1).scatter_(0, self.places, values)[:-1]

    def _blocks(self, rows: Tensor) -> Tensor:
        return rows.view(self.num_blocks, self.length, -1)

    def _of_blocks(self, stacked: Tensor, like: Tensor) -> Tensor:
        return stacked.index_select(0, self.adapters).to(like.dtype)

    def lay_out(self, x: Tensor) -> Tensor:
        return x.index_select(0, self.sources)

    def multiply(self, rows: Tensor, factors: Tensor, offsets: Tensor | None = None) -> Tensor:
        # Select from the contiguous layout, so that a transposed tensor is not copied as a whole.
        is_transposed = factors.stride(-1) != 1
        own = self._of_blocks(factors.mT if is_transposed else factors, rows)
        own = own.mT if is_transposed else own
        if offsets is None:
            return self._blocks(rows).bmm(own).flatten(0, 1)
        return torch.baddbmm(self._of_blocks(offsets, rows).unsqueeze(1), self._blocks(rows), own).flatten(0, 1)

    def product_by_adapter(self, left: Tensor, right: Tensor) -> Tensor:
        products = self._blocks(left).mT.bmm(self._blocks(right))
        return products.new_zeros(self.num_adapters, *products.shape[1:]).index_add_(0, self.adapters, products)

    def sum_by_adapter(self, rows: Tensor) -> Tensor:
        sums = self._blocks(rows).sum(1)
        return sums.new_zeros(self.num_adapters, sums.size(-1)).index_add_(0, self.adapters, sums)

    def weights_of_rows(self, weights: Tensor) -> Tensor:
        return self._rows_of(weights.flatten().index_select(0, self.order)).unsqueeze(1)


AdapterRows = HostRows | DeviceRows


class MixChosen(torch.autograd.Function):
    """``Σ w · up(relu(down(x · gain + offset)))`` over the adapters that each position chose.

    Adapters without biases (LoRA) have no ReLU either. The backward pass folds gains and offsets into ``down`` again,
    so that no saved tensor grows with D.

    Shape:
        inputs: N×H; weights: N×k; gains, offsets: D×H or None; down: D×b×H; up: D×b×P; down_bias: D×b or None;
        up_bias: D×P or None; result: N×P
    """

    @staticmethod
    def forward(  # type: ignore[override]
        ctx: Any,
        rows: AdapterRows,
        inputs: Tensor,
        weights: Tensor,
        gains: Tensor | None,
        offsets: Tensor | None,
        down: Tensor,
        down_bias: Tensor | None,
        up: Tensor,
        up_bias: Tensor | None,
    ) -> Tensor:
        folded, folded_bias = fold_norms(gains, offsets, down, down_bias)
        hidden = rows.multiply(rows.lay_out(inputs), folded.mT, folded_bias)
        if down_bias is not None:
            hidden.relu_()
        ctx.rows = rows
        ctx.save_for_backward(inputs, weights, gains, offsets, down, down_bias, up, up_bias, hidden)
        return _combine(rows, rows.multiply(hidden, up, up_bias), weights)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:  # type: ignore[override]
        rows: AdapterRows = ctx.rows
        inputs, weights, gains, offsets, down, down_bias, up, up_bias, hidden = ctx.saved_tensors
        _, needs_inputs, needs_weights, *needs = ctx.needs_input_grad
        grad_inputs = grad_weights = None
        grads: list[Tensor | None] = [None] * 6
        grad_out = rows.lay_out(grad)
        grad_hidden = rows.multiply(grad_out, up.mT)
        if needs_weights:
            own = (grad_hidden * hidden).sum(-1, keepdim=True)
            if up_bias is not None:
                own = own + rows.multiply(grad_out, up_bias.unsqueeze(-1))
            # Pad by one, in case no position of the batch chose an adapter.
            grad_weights = F.pad(own.flatten(), (0, 1))[rows.entries]
            if rows.kept is not None:
                grad_weights = grad_weights * rows.kept
        row_weights = rows.weights_of_rows(weights).to(grad_out.dtype)  # weights are float32 under autocast
        grad_out = grad_out * row_weights
        grad_hidden = grad_hidden * row_weights
        if down_bias is not None:
            grad_hidden.masked_fill_(hidden.eq(0), 0)
        if any(needs):
            of_bias = rows.sum_by_adapter(grad_hidden)
            of_down = rows.product_by_adapter(grad_hidden, rows.lay_out(inputs))
            if gains is not None:
                grads[:2] = [(of_down * down).sum(1), torch.einsum("db,dbh->dh", of_bias, down.to(of_bias.dtype))]
                of_down = of_down * gains.unsqueeze(1) + of_bias.unsqueeze(2) * offsets.unsqueeze(1)
            grads[2:] = [of_down, of_bias, rows.product_by_adapter(hidden, grad_out), rows.sum_by_adapter(grad_out)]
        if needs_inputs:
            folded, _ = fold_norms(gains, offsets, down, down_bias)
            grad_inputs = _combine(rows, rows.multiply(grad_hidden, folded), None)
        found = (gains, offsets, down, down_bias, up, up_bias)
        grads = [None if g is None or p is None else g.to(p.dtype) for g, p in zip(grads, found, strict=True)]
        return None, grad_inputs, grad_weights, *grads


def fold_norms(
    gains: Tensor | None, offsets: Tensor | None, weight: Tensor, bias: Tensor | None
) -> tuple[Tensor, Tensor | None]:
    """Fold gains and offsets into down projections: ``down(x · γ + β) = (down · γ) · x + down · β``.

    Shape:
        gains, offsets: A×H or None; weight: A×b×H; bias: A×b; result: A×b×H and A×b
    """
    if gains is None or offsets is None or bias is None:
        return weight, bias
    return weight * gains.unsqueeze(1), bias + torch.einsum("dbh,dh->db", weight, offsets)


def _combine(rows: AdapterRows, values: Tensor, weights: Tensor | None) -> Tensor:
    """Sum the k rows of each position, optionally weighted: R×P → N×P."""
    if weights is None and rows.kept is not None:  # given weights of skipped rows are zero already
        weights = rows.kept
    if not len(values):
        return values.new_zeros(len(rows.entries), values.size(-1))
    weights = None if weights is None else weights.to(values.dtype).flatten()
    return F.embedding_bag(rows.entries.flatten(), values, rows.bags, mode="sum", per_sample_weights=weights)
