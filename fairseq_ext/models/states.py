"""Averaged last hidden states of a language model for a stretch of text.

Only the base model is used, without adapters, so the states of a text are the same before and after training.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from fairseq_ext.models.transformer_lm_hier_adapter import node_weights_of


def base_states(model: Any, tokens: Tensor, pad: int) -> Tensor:
    """Average the base model's last hidden states over each row's tokens: B×T → B×H; see :func:`prefix_states`."""
    return prefix_states(model, tokens, pad, [0])[0]


def prefix_states(model: Any, tokens: Tensor, pad: int, lengths: Sequence[int]) -> dict[int, Tensor]:
    """Average the base model's last hidden states over prefixes of each row, in one forward pass.

    The model is causal, so later tokens do not change the states of a prefix, except for rounding.

    Args:
        model: a fairseq language model, with or without hierarchical adapters.
        lengths: lengths of prefixes in tokens; 0 for the whole row.

    Shape:
        tokens: B×T; result: B×H each
    """
    with node_weights_of(torch.zeros(1, len(model.tree.names)) if hasattr(model, "tree") else None):
        features, _ = model.decoder.extract_features(tokens, encoder_out=None)  # B×T×H
    return {n: _average(features[:, : n or None], tokens[:, : n or None].ne(pad)) for n in lengths}


def _average(features: Tensor, is_token: Tensor) -> Tensor:
    """Average over the tokens of each row, zero if it has none: B×T×H and B×T → B×H, float32."""
    weights = is_token.float() / is_token.sum(1, keepdim=True).clamp(min=1)
    return torch.einsum("bth,bt->bh", features.float(), weights)
