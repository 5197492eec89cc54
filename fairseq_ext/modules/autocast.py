"""Devices, and whether autocast is enabled on them."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext

import torch
from torch import Tensor


def chosen_device(is_cpu: bool) -> str:
    """Return ``cuda`` if there is a GPU, unless the CPU is asked for."""
    return "cuda" if torch.cuda.is_available() and not is_cpu else "cpu"


def autocasts(x: Tensor) -> bool:
    """Return whether autocast is enabled on the tensor's device."""
    kind = x.device.type
    return torch.amp.is_autocast_available(kind) and torch.is_autocast_enabled(kind)


def autocast_dtype(x: Tensor) -> torch.dtype:
    """Return the dtype of matrix products of the tensor."""
    return torch.get_autocast_dtype(x.device.type) if autocasts(x) else x.dtype


def without_autocast(x: Tensor) -> AbstractContextManager:
    """Return a context manager that disables autocast on the tensor's device."""
    return torch.autocast(x.device.type, enabled=False) if autocasts(x) else nullcontext()
