"""The weights of GPT-2 and those of fairseq's ``transformer_lm``: other names, the same numbers.

Hugging Face keeps a projection as a matrix from inputs to outputs, fairseq as one from outputs to inputs; query, key
and value are one matrix there and three here; fairseq's table of positions begins with rows for ``<s>`` and
``<pad>``, which no position uses; and the symbols are in another order
(:mod:`fairseq_ext.text.byte_level_bpe`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

# Hugging Face's name and fairseq's, within a layer.
_MODULES = {
    "ln_1": "self_attn_layer_norm",
    "attn.c_proj": "self_attn.out_proj",
    "ln_2": "final_layer_norm",
    "mlp.c_fc": "fc1",
    "mlp.c_proj": "fc2",
}
_PROJECTIONS = ("q_proj", "k_proj", "v_proj")
_EMBEDDING, _OUTPUT = "decoder.embed_tokens.weight", "decoder.output_projection.weight"
_POSITIONS, _FINAL_NORM, _VERSION = "decoder.embed_positions.weight", "decoder.layer_norm", "decoder.version"
# Positions are counted from the number after <pad>'s.
_UNUSED_POSITIONS = 2


@dataclass(frozen=True)
class Shape:
    """The sizes of a GPT-2: V symbols, N positions, H wide, F inside the feed-forward parts."""

    symbols: int
    positions: int
    width: int
    inner: int
    layers: int


def gpt2_shapes(shape: Shape) -> dict[str, tuple[int, ...]]:
    """The shape of every tensor of a GPT-2, by Hugging Face's name without the prefix ``transformer.``."""
    width, inner = shape.width, shape.inner
    matrices = {
        "attn.c_attn": (width, 3 * width),
        "attn.c_proj": (width, width),
        "mlp.c_fc": (width, inner),
        "mlp.c_proj": (inner, width),
    }
    norms = ["ln_f", *(f"h.{layer}.{name}" for layer in range(shape.layers) for name in ("ln_1", "ln_2"))]
    shapes: dict[str, tuple[int, ...]] = {"wte.weight": (shape.symbols, width), "wpe.weight": (shape.positions, width)}
    for layer in range(shape.layers):
        for name, (rows, columns) in matrices.items():
            shapes |= {f"h.{layer}.{name}.weight": (rows, columns), f"h.{layer}.{name}.bias": (columns,)}
    for name in norms:
        shapes |= {f"{name}.weight": (width,), f"{name}.bias": (width,)}
    return shapes


def fairseq_shapes(shape: Shape) -> dict[str, tuple[int, ...]]:
    """The shape of every tensor of the same model in fairseq."""
    empty = {name: torch.empty(size, device="meta") for name, size in gpt2_shapes(shape).items()}
    return {name: tuple(value.shape) for name, value in to_fairseq(empty, range(shape.symbols)).items()}


def to_fairseq(weights: Mapping[str, Tensor], order: Sequence[int]) -> dict[str, Tensor]:
    """Name and lay out a GPT-2's weights as ``transformer_lm`` does.

    Args:
        weights: by Hugging Face's names, without the prefix ``transformer.``; all of them.
        order: by row of fairseq's dictionary, GPT-2's number of the symbol.

    Shape:
        order: V
    """
    embedding = weights["wte.weight"][list(order)]
    table = weights["wpe.weight"]
    unused = table.new_zeros(_UNUSED_POSITIONS, table.shape[1])
    state = {
        _VERSION: table.new_full((1,), 3.0),
        _EMBEDDING: embedding,
        _OUTPUT: embedding,
        _POSITIONS: torch.cat([unused, table]),
    }
    for name, value in weights.items():
        if name.startswith("h."):
            state.update(_layer_to_fairseq(name, value))
    return state | {f"{_FINAL_NORM}.{kind}": weights[f"ln_f.{kind}"] for kind in ("weight", "bias")}


def to_gpt2(state: Mapping[str, Tensor], order: Sequence[int]) -> dict[str, Tensor]:
    """Undo :func:`to_fairseq`; the names have no prefix, and the output matrix is left out as in GPT-2's files."""
    embedding = torch.empty_like(state[_EMBEDDING])
    embedding[list(order)] = state[_EMBEDDING]
    weights = {"wte.weight": embedding, "wpe.weight": state[_POSITIONS][_UNUSED_POSITIONS:].clone()}
    weights |= {f"ln_f.{kind}": state[f"{_FINAL_NORM}.{kind}"].clone() for kind in ("weight", "bias")}
    num_layers = sum(name.endswith(".fc1.bias") for name in state)
    for layer in range(num_layers):
        weights.update(_layer_to_gpt2(state, layer))
    return weights


def _layer_to_fairseq(name: str, value: Tensor) -> Iterator[tuple[str, Tensor]]:
    _, layer, rest = name.split(".", 2)
    module, kind = rest.rsplit(".", 1)
    prefix, value = f"decoder.layers.{layer}", _transposed(value)
    if module == "attn.c_attn":
        for projection, part in zip(_PROJECTIONS, value.chunk(3), strict=True):
            yield f"{prefix}.self_attn.{projection}.{kind}", part.contiguous()
    else:
        yield f"{prefix}.{_MODULES[module]}.{kind}", value.contiguous()


def _layer_to_gpt2(state: Mapping[str, Tensor], layer: int) -> Iterator[tuple[str, Tensor]]:
    prefix = f"decoder.layers.{layer}"
    for kind in ("weight", "bias"):
        parts = [state[f"{prefix}.self_attn.{projection}.{kind}"] for projection in _PROJECTIONS]
        yield f"h.{layer}.attn.c_attn.{kind}", _transposed(torch.cat(parts)).contiguous()
        for name, module in _MODULES.items():
            yield f"h.{layer}.{name}.{kind}", _transposed(state[f"{prefix}.{module}.{kind}"]).contiguous()


def _transposed(value: Tensor) -> Tensor:
    return value.T if value.dim() == 2 else value
