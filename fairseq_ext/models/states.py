"""Averaged last hidden states of a language model for a stretch of text.

Only the base model is used, without adapters, so the states of a text are the same before and after training.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from fairseq_ext.models.transformer_lm_hier_adapter import node_weights_of


def base_states(model: Any, tokens: Tensor, pad: int) -> Tensor:
    """Average the last hidden states over each row's tokens, zero if it has none: B×T → B×H, float32.

    ``model`` is a fairseq language model, with or without hierarchical adapters.
    """
    with node_weights_of(torch.zeros(1, len(model.tree.names)) if hasattr(model, "tree") else None):
        features, _ = model.decoder.extract_features(tokens, encoder_out=None)  # B×T×H
    is_token = tokens.ne(pad)
    weights = is_token.float() / is_token.sum(1, keepdim=True).clamp(min=1)
    return torch.einsum("bth,bt->bh", features.float(), weights)
