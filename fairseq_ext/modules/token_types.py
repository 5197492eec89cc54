"""BERT's token types: what the second text of a pair has that the first has not.

The embeddings of positions contain type 0, which all texts have. ``second_text`` is what type 1 adds to it.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn

SECOND_TEXT = "second_text"


def fresh_second_text(embed_tokens: nn.Embedding) -> nn.Parameter:
    """A parameter to load a base's into: H."""
    return nn.Parameter(torch.zeros_like(embed_tokens.weight[0]), requires_grad=False)


def take_token_types(encoder: nn.Module, state: Mapping[str, Tensor], prefix: str) -> None:
    """Let an encoder keep the token types that a state dict has for it, if any."""
    if prefix + SECOND_TEXT in state and getattr(encoder, SECOND_TEXT, None) is None:
        encoder.register_parameter(SECOND_TEXT, fresh_second_text(encoder.embed_tokens))  # type: ignore[arg-type]


def in_second_text(tokens: Tensor, end: int) -> Tensor:
    """Which tokens stand behind the first end of a text: B×T."""
    ends = tokens.eq(end).long()
    return ends.cumsum(1) > ends
