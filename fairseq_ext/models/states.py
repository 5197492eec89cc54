"""What a language model makes of a stretch of text: its last hidden states, averaged.

Always the base model's: adapters take no part, so the states of a text are the same before and after training.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from fairseq_ext.models.transformer_lm_hier_adapter import node_weights_of


def base_states(model: Any, tokens: Tensor, pad: int) -> Tensor:
    """The base model's last hidden states, averaged over each row's tokens: B×T → B×H; see :func:`prefix_states`."""
    return prefix_states(model, tokens, pad, [0])[0]


def prefix_states(model: Any, tokens: Tensor, pad: int, lengths: Sequence[int]) -> dict[int, Tensor]:
    """The base model's last hidden states, averaged over so many first tokens of each row, of one pass over all.

    The model reads from left to right, so what follows makes no difference to them but for rounding.

    Args:
        model: a fairseq language model, with or without hierarchical adapters.
        lengths: numbers of first tokens; 0: all.

    Shape:
        tokens: B×T; result: B×H each
    """
    with node_weights_of(torch.zeros(1, len(model.tree.names)) if hasattr(model, "tree") else None):
        features, _ = model.decoder.extract_features(tokens, encoder_out=None)  # B×T×H
    return {n: _average(features[:, : n or None], tokens[:, : n or None].ne(pad)) for n in lengths}


def _average(features: Tensor, is_token: Tensor) -> Tensor:
    """Zeros for no token: B×T×H and B×T → B×H, float32."""
    weights = is_token.float() / is_token.sum(1, keepdim=True).clamp(min=1)
    return torch.einsum("bth,bt->bh", features.float(), weights)
