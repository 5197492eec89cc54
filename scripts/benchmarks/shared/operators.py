"""What a piece of code asks of a device: the kernels that it starts, and the times that it waits for their results."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

# Their result, or the shape of it, depends on numbers that only the device has.
_WAITING = {
    *("_local_scalar_dense", "is_nonzero", "item", "equal", "nonzero", "masked_select", "repeat_interleave"),
    *("unique_dim", "unique_consecutive", "_unique", "_unique2", "bincount"),
}
# They start no kernel, and torch does not call them views either.
_FREE = {
    *("detach", "alias", "lift_fresh", "empty", "empty_like", "new_empty", "empty_strided", "new_empty_strided"),
    "_unsafe_view",
}


class OperatorCount(TorchDispatchMode):
    """Counts while it is entered.

    Args:
        device: whose operators count. On ``meta``, which computes nothing, code takes the ways of an accelerator; the
            answer to what it wants to read there is yes, or 1, and what never left the host is free.

    Attributes:
        kernels: operators that are no views, by name.
        waits: those that synchronise, by name; copies to the host among them.
    """

    def __init__(self, device: str = "cpu") -> None:
        super().__init__()
        self.device = device
        self.kernels: Counter[str] = Counter()
        self.waits: Counter[str] = Counter()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = func._schema.name.removeprefix("aten::")
        tensors = [value for value in args if isinstance(value, Tensor)]
        if self.device != "cpu" and all(value.device.type == "cpu" for value in tensors):
            pass
        elif name in _WAITING or _goes_to_host(name, args, kwargs or {}) or _indexes_by_mask(name, args):
            self.waits[name] += 1
        elif name not in _FREE and not func.is_view:
            self.kernels[name] += 1
        if name == "_local_scalar_dense" and tensors[0].is_meta:
            return True if tensors[0].dtype == torch.bool else 1
        return func(*args, **(kwargs or {}))


def count_operators(run: Callable[[], Any], device: str = "cpu") -> OperatorCount:
    """What a call asks of a device."""
    with OperatorCount(device) as count:
        run()
    return count


def _goes_to_host(name: str, args: Any, kwargs: Any) -> bool:
    device = kwargs.get("device")
    return name == "_to_copy" and device is not None and device.type == "cpu" and args[0].device.type != "cpu"


def _indexes_by_mask(name: str, args: Any) -> bool:
    """Whether the result's size depends on how many are true."""
    lists = (
        [each for each in args if isinstance(each, list | tuple)] if name.startswith(("index", "_index_put")) else []
    )
    return any(isinstance(each, Tensor) and each.dtype in (torch.bool, torch.uint8) for part in lists for each in part)
