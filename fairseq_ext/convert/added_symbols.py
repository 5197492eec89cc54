"""Symbols that a pretrained model lacks, such as domain tags, added to its tables of embeddings."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from fairseq_ext.convert.embedding_tables import NEVER
from fairseq_ext.patches.models import OUTPUT_BIAS

_BIAS = f"decoder.{OUTPUT_BIAS}"
_INPUTS, _OUTPUT = ("encoder.embed_tokens.weight", "decoder.embed_tokens.weight"), "decoder.output_projection.weight"


def add_symbols(weights: Mapping[str, Tensor], count: int) -> dict[str, Tensor]:
    """Return a translation model's weights with ``count`` more symbols at the end of both dictionaries.

    Their embeddings are zero, so that a training starts from the unchanged model. The model never produces them.
    """
    added = dict(weights)
    tables: dict[int, Tensor] = {}
    for name in [name for name in (*_INPUTS, _OUTPUT) if name in weights]:
        table = weights[name]
        # Tied tables stay one tensor.
        added[name] = tables.setdefault(table.data_ptr(), torch.cat([table, table.new_zeros(count, table.size(1))]))
    output = weights[_OUTPUT if _OUTPUT in weights else _INPUTS[1]]
    bias = weights.get(_BIAS, output.new_zeros(len(output)))
    return {**added, _BIAS: torch.cat([bias, bias.new_full((count,), NEVER)])}
