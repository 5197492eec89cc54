"""Nodes of a domain tree in training: how a checkpoint names them, and which of them a step may change."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from fairseq_ext.errors import InputError
from fairseq_ext.modules.adapter_bank import AdapterBank

NODE_NAMES = "decoder.node_names"


def node_names_entry(names: Sequence[str]) -> Tensor:
    """The names of the banks' rows, as an entry of a state dict: UTF-8 of JSON."""
    return torch.frombuffer(bytearray(json.dumps(list(names)).encode()), dtype=torch.uint8)


def read_node_names(entry: Tensor) -> list[str]:
    """What :func:`node_names_entry` wrote.

    Raises:
        InputError: if it is something else.
    """
    try:
        names = json.loads(bytes(entry.tolist()))
    except (ValueError, TypeError):
        names = None
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise InputError(f"the checkpoint's entry {NODE_NAMES} does not list its nodes; it is damaged")
    return names


def keep_order_of_nodes(model: nn.Module, state_dict: dict[str, Tensor], names: Sequence[str]) -> None:
    """Bring the rows of a checkpoint's banks into the order of this model's nodes, in place.

    Nodes that the checkpoint does not have start fresh: so a tree grows. One without any adapter is left alone.

    Args:
        model: with a bank in every layer of its decoder.
        state_dict: of the checkpoint.
        names: the model's nodes.

    Raises:
        InputError: if the checkpoint has nodes that the model lacks, or rows without names.
    """
    saved_entry = state_dict.get(NODE_NAMES)
    state_dict[NODE_NAMES] = node_names_entry(names)
    stacked = [f"{prefix}.{kind}" for prefix in _banks(model) for kind in AdapterBank.STACKED]
    if not any(key in state_dict for key in stacked):
        return
    if saved_entry is None:
        raise InputError(f"the checkpoint has adapters but no entry {NODE_NAMES} that names them; it is damaged")
    saved = read_node_names(saved_entry)
    dropped = [name for name in saved if name not in names]
    if dropped:
        raise InputError(f"the checkpoint has nodes that the tree lacks: {', '.join(dropped)}; add them to the tree")
    rows = [names.index(name) for name in saved]
    own = model.state_dict()
    for key in stacked:
        value = state_dict.get(key)
        if value is not None and len(value) == len(rows) and value.shape[1:] == own[key].shape[1:]:
            state_dict[key] = own[key].to(value).index_copy(0, torch.tensor(rows, device=value.device), value)


def _banks(model: nn.Module) -> Iterator[str]:
    """The state-dict prefixes of all banks."""
    return (name for name, module in model.named_modules() if isinstance(module, AdapterBank))


@contextmanager
def only_active_nodes_change(
    optimizer: torch.optim.Optimizer, banks: Sequence[AdapterBank], trained: Collection[int]
) -> Iterator[None]:
    """Keep nodes without gradients, and those not to be trained, as they are over an optimiser's step, bit for bit.

    Momentum and weight decay move a stacked parameter also where it has no gradient. Rows that took no part are put
    back, and what the optimiser remembers of them.

    Args:
        optimizer: torch's, about to step.
        banks: whose gradients are complete.
        trained: rows that may change.

    Raises:
        InputError: if the optimiser holds a copy of all weights in one piece.
    """
    held = {id(parameter) for group in optimizer.param_groups for parameter in group["params"]}
    kept: list[tuple[Tensor, Tensor, Tensor]] = []
    for bank in banks:
        rows = _rows_to_keep(bank, trained)
        for kind in AdapterBank.STACKED if len(rows) else ():
            parameter = getattr(bank, kind)
            if id(parameter) not in held:
                raise InputError(
                    "--fp16 and --bf16 keep one flat copy of all weights, in which nodes cannot be told apart; use "
                    "--memory-efficient-fp16 or --memory-efficient-bf16"
                )
            remembered = [
                value for value in optimizer.state.get(parameter, {}).values() if _has_rows_of(parameter, value)
            ]
            kept += [(value, rows, value.detach()[rows].clone()) for value in (parameter, *remembered)]
    yield
    with torch.no_grad():
        for value, rows, before in kept:
            value[rows] = before


def _rows_to_keep(bank: AdapterBank, trained: Collection[int]) -> Tensor:
    """Rows of a bank that took no part in the loss, or must not change."""
    gradient = bank.up_bias.grad  # any path to the loss passes it
    changes = torch.zeros(bank.num_adapters, dtype=torch.bool, device=bank.up_bias.device)
    changes[list(trained)] = True
    if gradient is not None:
        changes &= gradient.ne(0).any(dim=1)
    return (~changes).nonzero().squeeze(1)


def _has_rows_of(parameter: Tensor, value: Any) -> bool:
    return isinstance(value, Tensor) and value.shape == parameter.shape
