"""Adapters that take no part in a step stay as they are, whatever the optimiser remembers of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from contextlib import ExitStack, contextmanager
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


@contextmanager
def only_active_change(optimizer: Any, model: Any) -> Iterator[None]:
    """Keep all adapters, and gates, of a model that took no part in a loss as they are over a step, bit for bit."""
    banks = getattr(model, "banks", [])
    gates, trained_gates = getattr(model, "gate_parameters", ()), getattr(model, "trained_gate_rows", ())
    with ExitStack() as stack:
        if banks and isinstance(banks[0], NodeBank):
            stack.enter_context(only_active_nodes_change(optimizer, banks))
        elif banks:
            stack.enter_context(only_active_rows_change(optimizer, banks))
            stack.enter_context(only_these_gates_change(optimizer, gates, trained_gates))
        yield


@contextmanager
def only_active_rows_change(optimizer: Any, banks: Sequence[Bank]) -> Iterator[None]:
    """Keep adapters without gradients as they are over a step, bit for bit.

    Momentum and weight decay move a stacked parameter also where it has no gradient. Rows that took no part are left
    out of the step, or put back after it, in the optimiser's own copy of the weights too, and with them what it
    remembers of each number.

    Args:
        optimizer: fairseq's, about to step.
        banks: of as many adapters each, whose gradients are complete.
    """
    banks = [bank for bank in banks if getattr(bank, bank.last).requires_grad]
    with _rows_stay(
        optimizer,
        [
            (getattr(bank, kind), rows)
            for bank, rows in zip(banks, _idle_rows(banks), strict=True)
            for kind in bank.row_names
        ],
    ):
        yield


@contextmanager
def only_active_nodes_change(optimizer: Any, banks: Sequence[NodeBank]) -> Iterator[None]:
    """Keep nodes that took no part as they are over a step, bit for bit: let them have no gradient.

    Only the flat copy of all weights that --fp16 makes has one for all; there they are put back after the step.

    Args:
        optimizer: fairseq's, about to step.
        banks: of as many nodes each, whose gradients are complete.
    """
    _forget_idle_nodes(banks)
    copies = getattr(optimizer, "fp32_params", None)
    if copies is None:
        _require_own_parameters(optimizer, banks)
        yield
        return
    idle = [p for bank in banks for p in bank.nodes.parameters() if p.requires_grad and p.grad is None]
    if optimizer.has_flat_params:
        with _rows_stay(optimizer, [(p, range(len(p))) for p in idle]):
            yield
        return
    own = dict(zip(map(id, optimizer.fp16_params), copies, strict=True))
    for parameter in idle:
        own[id(parameter)].grad = None
    yield


def _forget_idle_nodes(banks: Sequence[NodeBank]) -> None:
    """Take away the gradients of nodes that took no part: what is left out of a loss has gradients of zero."""
    # Any path to the loss passes the last offset.
    reached = [(bank, node, grad) for bank in banks for node, grad in bank.gradients("up_bias")]
    if not reached:
        return
    # Asked once for all: every answer keeps the host waiting for the device.
    are_active = torch.stack([grad for _, _, grad in reached]).ne(0).any(-1).tolist()
    for (bank, node, _), is_active in zip(reached, are_active, strict=True):
        for parameter in () if is_active else bank.node_parameters(node):
            parameter.grad = None


def _require_own_parameters(optimizer: Any, banks: Sequence[NodeBank]) -> None:
    """Refuse an optimiser that has the weights in pieces."""
    reached = ((bank, node) for bank in banks for node, _ in bank.gradients("up_bias"))
    some = next((parameter for bank, node in reached for parameter in bank.node_parameters(node)), None)
    if some is not None and not any(some is p for group in optimizer.param_groups for p in group["params"]):
        raise InputError(_IN_PIECES)


@contextmanager
def only_these_gates_change(optimizer: Any, weights: Sequence[Tensor], trained: Collection[int]) -> Iterator[None]:
    """Keep the rows of gates that are not to be trained as they are over a step, bit for bit.

    Args:
        optimizer: fairseq's, about to step.
        weights: of gates, with a row for each adapter.
        trained: rows that may change.
    """
    with _rows_stay(optimizer, [(w, [row for row in range(len(w)) if row not in trained]) for w in weights]):
        yield


@contextmanager
def _rows_stay(optimizer: Any, parameters: Sequence[tuple[Tensor, Sequence[int]]]) -> Iterator[None]:
    """Leave these rows of parameters out of a step, with all that the optimiser has of them."""
    kept: list[tuple[Tensor, Tensor, Tensor]] = []
    narrowed: list[_ActiveRows] = []
    places = _places(optimizer) if any(rows for _, rows in parameters) else {}
    for parameter, numbers in parameters:
        if not numbers:
            continue
        place = places.get(id(parameter))
        if 2 * len(numbers) > len(parameter) and _is_by_number(parameter, place, optimizer.optimizer):
            narrowed.append(_ActiveRows(parameter, numbers, optimizer.optimizer.state[parameter]))
            continue
        rows = torch.tensor(numbers, device=parameter.device)
        kept += [(value, rows, value[rows]) for value in _tensors_of(parameter, place, optimizer.optimizer)]
    try:
        yield
    finally:
        for each in narrowed:
            each.put_back()
    for value, rows, before in kept:
        value[rows] = before


def _is_by_number(parameter: Tensor, place: _Place | None, optimizer: torch.optim.Optimizer) -> bool:
    """Whether the optimiser steps a parameter itself, and what it remembers of it is one number for each of its own."""
    if place is None or place.whole is not parameter or parameter.grad is None:
        return False
    remembered = [v for v in optimizer.state.get(parameter, {}).values() if isinstance(v, Tensor) and v.dim()]
    return bool(remembered) and all(value.shape == parameter.shape for value in remembered)


class _ActiveRows:
    """A parameter of its active rows alone, until they are put back; of many rows few then cost little.

    Args:
        parameter: with a gradient.
        idle: its other rows.
        state: what the optimiser remembers of it.
    """

    def __init__(self, parameter: Tensor, idle: Sequence[int], state: dict[str, Any]):
        active = sorted(set(range(len(parameter))) - set(idle))
        self.rows = torch.tensor(active, dtype=torch.long, device=parameter.device)
        self.parameter, self.state = parameter, state
        self.data, self.grad = parameter.data, parameter.grad
        self.remembered = {k: v for k, v in state.items() if isinstance(v, Tensor) and v.dim()}
        assert self.grad is not None
        parameter.data = self.data[self.rows]
        parameter.grad = self.grad[self.rows]
        state |= {name: value[self.rows] for name, value in self.remembered.items()}

    def put_back(self) -> None:
        self.data[self.rows] = self.parameter.data
        self.parameter.data, self.parameter.grad = self.data, self.grad
        for name, value in self.remembered.items():
            value[self.rows] = self.state[name]
        self.state |= self.remembered


def _idle_rows(banks: Sequence[Bank]) -> list[list[int]]:
    """The rows of each bank that took no part in the loss."""
    if not banks:
        return []
    passed = [getattr(bank, bank.last) for bank in banks]
    gradients = [torch.zeros_like(p) if p.grad is None else p.grad for p in passed]
    # Asked once for all banks: every answer keeps the host waiting for the device.
    are_active = torch.stack([grad.ne(0).flatten(1).any(-1) for grad in gradients]).tolist()
    return [[row for row, is_active in enumerate(rows) if not is_active] for rows in are_active]


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
