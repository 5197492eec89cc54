"""What autocast does where a tensor lies, on devices that know none too."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext

import torch
from torch import Tensor


def autocasts(x: Tensor) -> bool:
    """Whether products of such a tensor are made in another type."""
    kind = x.device.type
    return torch.amp.is_autocast_available(kind) and torch.is_autocast_enabled(kind)


def autocast_dtype(x: Tensor) -> torch.dtype:
    """The type of such products."""
    return torch.get_autocast_dtype(x.device.type) if autocasts(x) else x.dtype


def without_autocast(x: Tensor) -> AbstractContextManager:
    """A block in which such a tensor's products keep its type."""
    return torch.autocast(x.device.type, enabled=False) if autocasts(x) else nullcontext()
