"""Adapters that take no part in a step stay as they are, whatever the optimiser remembers of them.

Momentum and weight decay move a parameter also where its gradient is zero. Nodes of a tree are parameters of their own:
without a gradient, an optimiser passes them over. Rows of a stacked parameter, and all that --fp16 keeps in one flat
copy, are put back after the step, with what the optimiser remembers of them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from fairseq_ext.inputs.errors import InputError
from fairseq_ext.modules.adapter_bank import Bank
from fairseq_ext.modules.node_bank import NodeBank

_IN_PIECES = (
    "the optimiser keeps the weights where adapters cannot be told apart: leave --optimizer composite, "
    "--ddp-backend fully_sharded and --zero-sharding out"
)
Rows = tuple[Tensor, Sequence[int]]  # of a parameter, by their numbers


@contextmanager
def only_active_change(optimizer: Any, model: Any) -> Iterator[None]:
    """Keep all adapters of a model that took no part in a loss, and gates that do not train, as they are over a step.

    Args:
        optimizer: fairseq's, about to step; it must not have the weights in pieces.
        model: with ``banks``, of as many adapters each, whose gradients are complete; others are left alone.
    """
    banks = getattr(model, "banks", [])
    if banks and isinstance(banks[0], NodeBank):
        idle = _idle_nodes(optimizer, banks)
    else:
        idle = [*_idle_rows(banks), *_untrained_gates(model)]
    places = _places(optimizer) if any(rows for _, rows in idle) else {}
    kept: list[tuple[Tensor, Tensor, Tensor]] = []
    for parameter, numbers in idle:
        rows = torch.tensor(numbers, dtype=torch.long, device=parameter.device)
        values = _tensors_of(parameter, places.get(id(parameter)), optimizer.optimizer) if numbers else ()
        kept += [(value, rows, value[rows]) for value in values]
    yield
    for value, rows, before in kept:
        value[rows] = before


def _idle_rows(banks: Sequence[Bank]) -> Iterator[Rows]:
    """The rows of each bank that took no part in the loss."""
    banks = [bank for bank in banks if getattr(bank, bank.last).requires_grad]
    if not banks:
        return
    passed = [getattr(bank, bank.last) for bank in banks]
    gradients = [torch.zeros_like(p) if p.grad is None else p.grad for p in passed]
    # Asked once for all banks: every answer keeps the host waiting for the device.
    are_active = torch.stack([grad.ne(0).flatten(1).any(-1) for grad in gradients]).tolist()
    for bank, active in zip(banks, are_active, strict=True):
        idle = [row for row, is_active in enumerate(active) if not is_active]
        yield from ((getattr(bank, kind), idle) for kind in bank.row_names)


def _untrained_gates(model: Any) -> Iterator[Rows]:
    """The rows of gates that are not to be trained."""
    trained = getattr(model, "trained_gate_rows", ())
    for weight in getattr(model, "gate_parameters", ()):
        yield weight, [row for row in range(len(weight)) if row not in trained]


def _idle_nodes(optimizer: Any, banks: Sequence[NodeBank]) -> list[Rows]:
    """Take away the gradients of nodes that took no part; returns those of them that a flat copy steps all the same."""
    # Any path to the loss passes the last offset. What is left out of a loss may have gradients of zero.
    reached = [(bank, node, grad) for bank in banks for node, grad in bank.gradients("up_bias")]
    # Asked once for all: every answer keeps the host waiting for the device.
    are_active = torch.stack([grad for _, _, grad in reached]).ne(0).any(-1).tolist() if reached else []
    for (bank, node, _), is_active in zip(reached, are_active, strict=True):
        for parameter in () if is_active else bank.node_parameters(node):
            parameter.grad = None
    parameters = [p for bank in banks for p in bank.nodes.parameters() if p.requires_grad]
    if not hasattr(optimizer, "fp32_params"):
        some = next((p for p in parameters if p.grad is not None), None)
        if some is not None and not any(some is p for group in optimizer.param_groups for p in group["params"]):
            raise InputError(_IN_PIECES)
        return []
    idle = [parameter for parameter in parameters if parameter.grad is None]
    if optimizer.has_flat_params:
        return [(parameter, range(len(parameter))) for parameter in idle]
    copies = dict(zip(map(id, optimizer.fp16_params), optimizer.fp32_params, strict=True))
    for parameter in idle:
        copies[id(parameter)].grad = None
    return []


@dataclass(frozen=True)
class _Place:
    """Where an optimiser has a parameter: in a tensor that it steps, from some number on or as a whole."""

    whole: Tensor
    start: int | None = None

    def part(self, value: Tensor, parameter: Tensor) -> Tensor:
        """The parameter's view of ``whole``, or of what goes with it."""
        if self.start is None:
            return value
        return value[self.start : self.start + parameter.numel()].view_as(parameter)

    def has_rows(self, value: Any) -> bool:
        """Whether what is remembered has the parameter's rows; of Adafactor's averages only some have."""
        if not isinstance(value, Tensor):
            return False
        is_by_row = self.start is None and value.dim() > 1 and len(value) == len(self.whole)
        return is_by_row or value.shape == self.whole.shape


def _places(optimizer: Any) -> dict[int, _Place]:
    """Where one of fairseq's optimisers has each parameter, by the parameter's id."""
    copies = getattr(optimizer, "fp32_params", None)
    if copies is None:
        groups = getattr(optimizer.optimizer, "param_groups", ())
        return {id(p): _Place(p) for group in groups for p in group["params"]}
    if not optimizer.has_flat_params:
        return {id(p): _Place(copy) for p, copy in zip(optimizer.fp16_params, copies, strict=True)}
    # --fp16 keeps one flat copy a device, of all weights in their order.
    places, ends = {}, Counter[int | None]()
    for parameter in optimizer.fp16_params:
        device = parameter.device.index
        places[id(parameter)] = _Place(copies[device], ends[device])
        ends[device] += parameter.numel()
    return places


def _tensors_of(parameter: Tensor, place: _Place | None, optimizer: torch.optim.Optimizer) -> Iterator[Tensor]:
    """All that a step changes for a parameter: itself, the optimiser's copy, and what it remembers by row."""
    if place is None:
        raise InputError(_IN_PIECES)
    if place.whole is not parameter:
        yield parameter.detach()
    remembered = optimizer.state.get(place.whole, {}).values()
    yield from (place.part(value, parameter) for value in (place.whole.detach(), *remembered) if place.has_rows(value))
