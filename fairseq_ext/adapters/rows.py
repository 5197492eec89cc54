"""What of a state dict is an adapter's, by name: one row of every stacked tensor."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Mapping, Sequence

import torch
from torch import Tensor

from fairseq_ext.modules.lora import PLACES
from fairseq_ext.training.adapter_names import GUARDED, NAMES
from fairseq_ext.training.freezing import is_adapter_key

State = dict[str, Tensor]
_NORMS = ("norm_weight", "norm_bias")
_LAYER = re.compile(r"((?:en|de)coder\.layers\.\d+)\.fc1\.weight")
# fairseq counts its formats in `version`.
_NO_BASE = re.compile(rf"{re.escape(NAMES)}|{re.escape(GUARDED)}|(?:en|de)coder\.version")


def is_base_key(key: str) -> bool:
    """Whether an entry belongs to the base: what adapters rest on."""
    return not is_adapter_key(key) and not _NO_BASE.fullmatch(key)


def is_row_key(key: str, shares_norms: bool) -> bool:
    """Whether an entry has one row an adapter."""
    return is_adapter_key(key) and not (shares_norms and key.endswith(_NORMS))


def bottleneck_shapes(state: Mapping[str, Tensor], width: int, shares_norms: bool) -> dict[str, tuple]:
    """The shape of one adapter's row in every stacked tensor, and of the norms that all share.

    Args:
        state: of the base, or of a model on it.
        width: b, inner width of an adapter; 0 for half the model's.
        shares_norms: one norm a layer serves all adapters.
    """
    shapes: dict[str, tuple] = {}
    for layer, embed_dim in _layers(state):
        inner = width or embed_dim // 2
        own = {
            "down_weight": (inner, embed_dim),
            "down_bias": (inner,),
            "up_weight": (inner, embed_dim),
            "up_bias": (embed_dim,),
            **dict.fromkeys(_NORMS, (1, embed_dim) if shares_norms else (embed_dim,)),
        }
        shapes |= {f"{layer}.adapter.bank.{name}": shape for name, shape in own.items()}
    return shapes


def lora_shapes(state: Mapping[str, Tensor], rank: int, names: Sequence[str]) -> dict[str, tuple]:
    """The same of adapters of the form of LoRA, for these kinds of linear layers."""
    shapes: dict[str, tuple] = {}
    for place in (f"{layer}.{path}" for layer, _ in _layers(state) for name in names for path in PLACES[name]):
        if (weight := state.get(f"{place}.weight")) is not None:
            outer, inner = weight.shape
            shapes |= {f"{place}.adapter.bank.down_weight": (rank, inner)}
            shapes |= {f"{place}.adapter.bank.up_weight": (rank, outer)}
    return shapes


def gate_shapes(state: Mapping[str, Tensor], inputs: str, num_pairs: int) -> dict[str, tuple]:
    """The shape of one adapter's row in every gate.

    Args:
        state: of the base, or of a model on it.
        inputs: what gates see.
        num_pairs: columns for pairs of source subwords, where gates see the source.
    """
    shapes: dict[str, tuple] = {}
    if "states" in inputs:
        shapes |= {f"{layer}.adapter.router.weight": (embed_dim,) for layer, embed_dim in _layers(state)}
    if "source" in inputs:
        shapes["encoder.adapter.router.weight"] = (len(state["encoder.embed_tokens.weight"]) + num_pairs,)
    return shapes


def _layers(state: Mapping[str, Tensor]) -> list[tuple[str, int]]:
    """The layers of a Transformer, each with its width."""
    return [(match[1], state[match[0]].shape[1]) for match in filter(None, map(_LAYER.fullmatch, state))]


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
    """A state dict in which adapters are in another order, or fewer.

    Args:
        state: of the model.
        old: names of its adapters.
        new: names in the order wanted, all among ``old``.
        is_row: tells entries with one row an adapter.
    """
    rows = torch.tensor([old.index(name) for name in new])
    return {key: value.index_select(0, rows) if is_row(key) else value for key, value in state.items()}


def append_rows(state: State, rows: Mapping[str, Tensor]) -> State:
    """A state dict with one more adapter, the last; ``rows`` has its row of every stacked tensor."""
    return {**state, **{key: _with_row(state.get(key), row) for key, row in rows.items()}}


def mean_rows(state: Mapping[str, Tensor], keys: Iterable[str]) -> State:
    """The mean of all adapters, by stacked tensor."""
    return {key: state[key].float().mean(0).to(state[key].dtype) for key in keys}


def fresh_rows(shapes: Mapping[str, tuple], scale: float) -> State:
    """An adapter at its start, which computes the identity, with an even gate: what a fresh bank has.

    Args:
        shapes: of the rows, see :func:`bottleneck_shapes`.
        scale: standard deviation of the down projections, truncated at two of them.
    """
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
