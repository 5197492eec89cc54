"""BERT's token types, which mark the second text of a pair.

The position embeddings include type 0. ``second_text`` is the difference of type 1 from type 0.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn

SECOND_TEXT = "second_text"


def fresh_second_text(embed_tokens: nn.Embedding) -> nn.Parameter:
    """Return a zero parameter, H, into which that of a base can be loaded."""
    return nn.Parameter(torch.zeros_like(embed_tokens.weight[0]), requires_grad=False)


def take_token_types(encoder: nn.Module, state: Mapping[str, Tensor], prefix: str) -> None:
    """Register the token types of an encoder if the state dict has them."""
    if prefix + SECOND_TEXT in state and getattr(encoder, SECOND_TEXT, None) is None:
        encoder.register_parameter(SECOND_TEXT, fresh_second_text(encoder.embed_tokens))  # type: ignore[arg-type]


def in_second_text(tokens: Tensor, end: int) -> Tensor:
    """Return which tokens follow the first end-of-sentence symbol: B×T."""
    ends = tokens.eq(end).long()
    return ends.cumsum(1) > ends
