"""Protection of adapters that are not used in a step from changes by the optimiser.

Momentum and weight decay change a parameter even if its gradient is zero. Nodes of a tree are separate parameters, and
optimisers skip those without a gradient. Rows of stacked parameters, and nodes in the flat copy of --fp16, are restored
after the step, together with their optimiser state.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from fairseq_ext.base.errors import InputError
from fairseq_ext.modules.adapter_bank import Bank
from fairseq_ext.modules.node_bank import NodeBank

_IN_PIECES = (
    "--optimizer composite, --ddp-backend fully_sharded and --zero-sharding: the optimiser cannot tell adapters apart; "
    "remove these options"
)
Rows = tuple[Tensor, Sequence[int]]  # a parameter and the numbers of some of its rows


@contextmanager
def only_active_change(optimizer: Any, model: Any) -> Iterator[None]:
    """Keep adapters that were not used in the loss, and untrained gates, unchanged by an optimiser step.

    Args:
        optimizer: fairseq's optimiser, about to step; its weights must not be sharded or split.
        model: a model with complete gradients. All its ``banks`` have the same number of adapters; models without
            banks are unaffected.
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
    """Yield the rows of each bank that were not used in the loss."""
    banks = [bank for bank in banks if getattr(bank, bank.last).requires_grad]
    if not banks:
        return
    passed = [getattr(bank, bank.last) for bank in banks]
    gradients = [torch.zeros_like(p) if p.grad is None else p.grad for p in passed]
    # One query for all banks, as each synchronises with the device.
    are_active = torch.stack([grad.ne(0).flatten(1).any(-1) for grad in gradients]).tolist()
    for bank, active in zip(banks, are_active, strict=True):
        idle = [row for row, is_active in enumerate(active) if not is_active]
        yield from ((getattr(bank, kind), idle) for kind in bank.row_names)


def _untrained_gates(model: Any) -> Iterator[Rows]:
    """Yield the untrained rows of gates."""
    trained = getattr(model, "trained_gate_rows", ())
    for weight in getattr(model, "gate_parameters", ()):
        yield weight, [row for row in range(len(weight)) if row not in trained]


def _idle_nodes(optimizer: Any, banks: Sequence[NodeBank]) -> list[Rows]:
    """Remove the gradients of unused nodes; return those that the optimiser steps anyway, as parts of a flat copy."""
    # The bias of `up` is on every path to the loss. Nodes that are not used in the loss may have zero gradients.
    reached = [(bank, node, grad) for bank in banks for node, grad in bank.gradients("up_bias")]
    # One query for all nodes, as each synchronises with the device.
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
    """Location of a parameter in an optimiser: a whole tensor, or the part of a flat tensor from ``start`` on."""

    whole: Tensor
    start: int | None = None

    def part(self, value: Tensor, parameter: Tensor) -> Tensor:
        """Return the parameter's view of ``whole`` or of optimiser state of the same layout."""
        if self.start is None:
            return value
        return value[self.start : self.start + parameter.numel()].view_as(parameter)

    def has_rows(self, value: Any) -> bool:
        """Return whether optimiser state has the parameter's rows; not all averages of Adafactor have."""
        if not isinstance(value, Tensor):
            return False
        is_by_row = self.start is None and value.dim() > 1 and len(value) == len(self.whole)
        return is_by_row or value.shape == self.whole.shape


def _places(optimizer: Any) -> dict[int, _Place]:
    """Return the location of each parameter in a fairseq optimiser, by the parameter's id."""
    copies = getattr(optimizer, "fp32_params", None)
    if copies is None:
        groups = getattr(optimizer.optimizer, "param_groups", ())
        return {id(p): _Place(p) for group in groups for p in group["params"]}
    if not optimizer.has_flat_params:
        return {id(p): _Place(copy) for p, copy in zip(optimizer.fp16_params, copies, strict=True)}
    # --fp16 keeps one flat copy per device of all weights in order.
    places, ends = {}, Counter[int | None]()
    for parameter in optimizer.fp16_params:
        device = parameter.device.index
        places[id(parameter)] = _Place(copies[device], ends[device])
        ends[device] += parameter.numel()
    return places


def _tensors_of(parameter: Tensor, place: _Place | None, optimizer: torch.optim.Optimizer) -> Iterator[Tensor]:
    """Yield the tensors that a step changes for a parameter: itself, the optimiser's copy, and state by row."""
    if place is None:
        raise InputError(_IN_PIECES)
    if place.whole is not parameter:
        yield parameter.detach()
    remembered = optimizer.state.get(place.whole, {}).values()
    yield from (place.part(value, parameter) for value in (place.whole.detach(), *remembered) if place.has_rows(value))
