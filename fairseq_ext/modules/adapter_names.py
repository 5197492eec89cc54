"""The names of the adapters, kept beside their rows in every checkpoint and compared whenever weights are loaded."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence

import torch
from torch import Tensor, nn

from fairseq_ext.inputs.errors import InputError
from fairseq_ext.modules.adapter_bank import Bank
from fairseq_ext.modules.routers import GateRouter
from fairseq_ext.modules.source_gate import SourceGate
from fairseq_ext.modules.text_entry import read_text, text_entry

NAMES = "decoder.adapter_names"
# Of a gated model, those that take part only where their gate's logit is above all others'.
GUARDED = "decoder.guarded_adapters"
# What language models of earlier versions called it.
EARLIER_NAMES = "decoder.node_names"


def keep_names(decoder: nn.Module, names: Sequence[str]) -> None:
    """Let a model's checkpoints name the rows of its adapters."""
    decoder.register_buffer(NAMES.rpartition(".")[2], names_entry(names))


def names_entry(names: Sequence[str]) -> Tensor:
    """Names as an entry of a state dict, in JSON."""
    return text_entry(json.dumps(list(names)))


def read_names(entry: Tensor, key: str = NAMES) -> list[str]:
    """What :func:`names_entry` wrote, under a key that messages name."""
    try:
        names = json.loads(read_text(entry))
    except (ValueError, TypeError):
        names = None
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise InputError(f"the checkpoint's entry {key} does not list its adapters; it is damaged")
    return names


def has_rows(model: nn.Module, state_dict: dict[str, Tensor]) -> bool:
    """Whether a checkpoint has adapters where this model has them."""
    return any(key in state_dict for key in _row_keys(model))


def match_rows(
    model: nn.Module, state_dict: dict[str, Tensor], names: Sequence[str], source: str, may_grow: bool = False
) -> None:
    """Bring the rows of a checkpoint's adapters and gates into the order of this model's, by name, in place.

    A checkpoint without any adapter is left alone. Names that it does not have start fresh if it ``may_grow``;
    ``source``, for messages, is where the model's names come from.
    """
    saved_entry = state_dict.pop(NAMES, state_dict.pop(EARLIER_NAMES, None))
    state_dict[NAMES] = names_entry(names)
    if not has_rows(model, state_dict):
        return
    if saved_entry is None:
        raise InputError(f"the checkpoint has adapters but no entry {NAMES} that names them; it is damaged")
    saved = read_names(saved_entry)
    _check_names(saved, names, source, may_grow)
    if saved != list(names):
        _move_rows(model, state_dict, [names.index(name) for name in saved])


def _check_names(saved: Sequence[str], names: Sequence[str], source: str, may_grow: bool) -> None:
    dropped = [name for name in saved if name not in names]
    if dropped:
        raise InputError(
            f"the checkpoint has adapters that {source} lacks: {', '.join(dropped)}; add them to {source}, or start "
            "from a base checkpoint"
        )
    added = [name for name in names if name not in saved]
    if added and not may_grow:
        raise InputError(
            f"{source} has {', '.join(added)}, for which the checkpoint has no adapters; it has {', '.join(saved)}: "
            "use these, or start from a base checkpoint"
        )


def _move_rows(model: nn.Module, state_dict: dict[str, Tensor], rows: Sequence[int]) -> None:
    """Put row i of the checkpoint at ``rows[i]``; rows that none comes to are the model's own."""
    own = model.state_dict()
    for key in _row_keys(model):
        value = state_dict.get(key)
        # What is of another shape is reported where the weights are loaded.
        if value is not None and len(value) == len(rows) and value.shape[1:] == own[key].shape[1:]:
            state_dict[key] = own[key].to(value).index_copy(0, torch.tensor(rows, device=value.device), value)


def _row_keys(model: nn.Module) -> Iterator[str]:
    """The state-dict keys of all tensors that have one row an adapter."""
    for name, module in model.named_modules():
        if isinstance(module, Bank | GateRouter | SourceGate):
            yield from (f"{name}.{kind}" for kind in module.row_names)
