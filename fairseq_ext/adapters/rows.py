"""What of a state dict is an adapter's, by name: one row of every stacked tensor."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Mapping, Sequence

import torch
from torch import Tensor

from fairseq_ext.modules.adapter_names import GUARDED, NAMES
from fairseq_ext.modules.freezing import is_adapter_key

State = dict[str, Tensor]
_NORMS = ("norm_weight", "norm_bias")
# fairseq counts its formats in `version`.
_NO_BASE = re.compile(rf"{re.escape(NAMES)}|{re.escape(GUARDED)}|(?:en|de)coder\.version")


def is_base_key(key: str) -> bool:
    """Whether an entry belongs to the base: what adapters rest on."""
    return not is_adapter_key(key) and not _NO_BASE.fullmatch(key)


def is_row_key(key: str, shares_norms: bool) -> bool:
    """Whether an entry has one row an adapter."""
    return is_adapter_key(key) and not (shares_norms and key.endswith(_NORMS))


def tensor_hash(value: Tensor) -> str:
    """SHA-256 of a tensor: its type, its shape, its bytes."""
    value = value.detach().contiguous()
    digest = hashlib.sha256(f"{value.dtype}\0{tuple(value.shape)}\0".encode())
    digest.update(value.reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()


def base_hashes(state: Mapping[str, Tensor]) -> dict[str, str]:
    """The fingerprint of a base: SHA-256 by tensor, in the model's order."""
    return {key: tensor_hash(value) for key, value in state.items() if is_base_key(key)}


def reorder_rows(state: State, old: Sequence[str], new: Sequence[str], is_row: Callable[[str], bool]) -> State:
    """A state dict in which adapters are in another order, or fewer."""
    rows = torch.tensor([old.index(name) for name in new])
    return {key: value.index_select(0, rows) if is_row(key) else value for key, value in state.items()}


def append_rows(state: State, rows: Mapping[str, Tensor]) -> State:
    """A state dict with one more adapter, the last; ``rows`` has its row of every stacked tensor."""
    return {**state, **{key: _with_row(state.get(key), row) for key, row in rows.items()}}


def mean_rows(state: Mapping[str, Tensor], keys: Iterable[str]) -> State:
    """The mean of all adapters, by stacked tensor."""
    return {key: state[key].float().mean(0).to(state[key].dtype) for key in keys}


def fresh_rows(shapes: Mapping[str, tuple], scale: float) -> State:
    """An adapter at its start, which computes the identity, with an even gate: what a fresh bank has."""
    rows = {key: torch.zeros(shape) for key, shape in shapes.items()}
    for key, row in rows.items():
        if key.endswith("norm_weight"):
            row.fill_(1)
        elif key.endswith("down_weight"):
            torch.nn.init.trunc_normal_(row, std=scale, a=-2 * scale, b=2 * scale)
    return rows


def _with_row(stacked: Tensor | None, row: Tensor) -> Tensor:
    row = row.unsqueeze(0)
    return row if stacked is None else torch.cat([stacked, row.to(stacked.dtype)])
