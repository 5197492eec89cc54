"""Text stored in the tensors of a state dict."""

from __future__ import annotations

import torch
from torch import Tensor


def text_entry(text: str) -> Tensor:
    """Encode a text as a state-dict entry: its UTF-8 bytes, one float each."""
    # Floats, because fairseq averages all tensors of checkpoints, where uint8 would overflow, and keeps moving averages
    # of them, which integers cannot represent. Half precision represents a byte exactly.
    return torch.tensor(list(text.encode()), dtype=torch.float32)


def read_text(entry: Tensor) -> str:
    """Decode an entry of :func:`text_entry` of any dtype; raise ValueError if it is invalid."""
    return bytes(entry.float().round().int().tolist()).decode()
