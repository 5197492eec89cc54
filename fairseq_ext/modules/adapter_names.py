"""Names of adapters, stored with their rows in every checkpoint and checked when weights are loaded."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence

import torch
from torch import Tensor, nn

from fairseq_ext.base.errors import InputError
from fairseq_ext.modules.adapter_bank import Bank
from fairseq_ext.modules.routers import GateRouter
from fairseq_ext.modules.source_gate import SourceGate
from fairseq_ext.modules.text_entry import read_text, text_entry

NAMES = "decoder.adapter_names"
# Adapters of a gated model that are used only where their logit is the highest.
GUARDED = "decoder.guarded_adapters"


def keep_names(decoder: nn.Module, names: Sequence[str], key: str = NAMES) -> None:
    """Store names of adapters in the model's checkpoints; without names, there is no such entry."""
    decoder.register_buffer(key.rpartition(".")[2], names_entry(names) if names else None)


def names_entry(names: Sequence[str]) -> Tensor:
    """Encode names as a state-dict entry, in JSON."""
    return text_entry(json.dumps(list(names)))


def read_names(entry: Tensor, key: str = NAMES) -> list[str]:
    """Decode an entry of :func:`names_entry`; ``key`` is used in error messages."""
    try:
        names = json.loads(read_text(entry))
    except (ValueError, TypeError):
        names = None
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise InputError(f"the checkpoint's entry {key} is not a list of adapter names; the file is damaged")
    return names


def match_rows(
    model: nn.Module, state_dict: dict[str, Tensor], names: Sequence[str], source: str, may_grow: bool = False
) -> None:
    """Reorder the rows of a checkpoint's adapters and gates by name to match this model, in place.

    A checkpoint without adapters only gets the model's names. If ``may_grow``, adapters that the checkpoint lacks keep
    their initial values. ``source`` says in error messages where the model's names come from.
    """
    saved_entry = state_dict.pop(NAMES, None)
    state_dict[NAMES] = names_entry(names)
    if not any(key in state_dict for key in _row_keys(model)):
        return
    if saved_entry is None:
        raise InputError(f"the checkpoint has adapters but no entry {NAMES} with their names; the file is damaged")
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
            f"{source} lists {', '.join(added)}, but the checkpoint has adapters only for {', '.join(saved)}; use only "
            "these, or start from a base checkpoint"
        )


def _move_rows(model: nn.Module, state_dict: dict[str, Tensor], rows: Sequence[int]) -> None:
    """Move row i of the checkpoint to ``rows[i]``; all other rows keep the model's values."""
    own = model.state_dict()
    for key in _row_keys(model):
        value = state_dict.get(key)
        # Other shapes are reported when the weights are loaded.
        if value is not None and len(value) == len(rows) and value.shape[1:] == own[key].shape[1:]:
            state_dict[key] = own[key].to(value).index_copy(0, torch.tensor(rows, device=value.device), value)


def _row_keys(model: nn.Module) -> Iterator[str]:
    """Yield the state-dict keys of all tensors with one row per adapter."""
    for name, module in model.named_modules():
        if isinstance(module, Bank | GateRouter | SourceGate):
            yield from (f"{name}.{kind}" for kind in module.row_names)
