"""Count the kernels that code starts on a device, and how often it waits for their results."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

# Operators whose result, or its shape, depends on values on the device.
_WAITING = {
    *("_local_scalar_dense", "is_nonzero", "item", "equal", "nonzero", "masked_select", "repeat_interleave"),
    *("unique_dim", "unique_consecutive", "_unique", "_unique2", "bincount"),
}
# Operators that start no kernel, but that torch does not classify as views.
_FREE = {
    *("detach", "alias", "lift_fresh", "empty", "empty_like", "new_empty", "empty_strided", "new_empty_strided"),
    "_unsafe_view",
}


class OperatorCount(TorchDispatchMode):
    """Count operators while the context is active.

    Args:
        device: device whose operators count. On ``meta``, which computes nothing, code takes the paths of an
            accelerator; values read from the device are True or 1, and operators on the host are not counted.

    Attributes:
        kernels: counts of operators other than views, by name.
        waits: counts of synchronising operators, including copies to the host, by name.
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
    """Count the operators of a call on a device."""
    with OperatorCount(device) as count:
        run()
    return count


def _goes_to_host(name: str, args: Any, kwargs: Any) -> bool:
    device = kwargs.get("device")
    return name == "_to_copy" and device is not None and device.type == "cpu" and args[0].device.type != "cpu"


def _indexes_by_mask(name: str, args: Any) -> bool:
    """Return whether the result's size depends on the values of a mask."""
    lists = (
        [each for each in args if isinstance(each, list | tuple)] if name.startswith(("index", "_index_put")) else []
    )
    return any(isinstance(each, Tensor) and each.dtype in (torch.bool, torch.uint8) for part in lists for each in part)
