"""Text among the tensors of a state dict."""

from __future__ import annotations

import torch
from torch import Tensor


def text_entry(text: str) -> Tensor:
    """A text as an entry of a state dict: its UTF-8, a number a byte."""
    # As floats: fairseq averages whatever a checkpoint holds, of which bytes would overflow, and keeps an average over
    # updates of it, which whole numbers cannot be. Half precision holds a byte exactly.
    return torch.tensor(list(text.encode()), dtype=torch.float32)


def read_text(entry: Tensor) -> str:
    """What :func:`text_entry` wrote, whatever number type it has now; a ValueError of anything else."""
    return bytes(entry.float().round().int().tolist()).decode()
