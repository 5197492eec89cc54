"""What a model asks of a device: the kernels that it starts, and the times that it waits for their results."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

# Their result, or the shape of it, depends on numbers that only the device has.
WAITING = frozenset(
    {
        "_local_scalar_dense",
        "is_nonzero",
        "item",
        "equal",
        "nonzero",
        "masked_select",
        "unique_dim",
        "unique_consecutive",
        "_unique",
        "_unique2",
        "repeat_interleave",
        "bincount",
    }
)
# They start no kernel, but are none of torch's views either.
FREE = frozenset(
    {
        "detach",
        "alias",
        "empty",
        "empty_like",
        "new_empty",
        "empty_strided",
        "new_empty_strided",
        "lift_fresh",
        "_unsafe_view",
    }
)


@dataclass
class Operators(TorchDispatchMode):
    """Counts the operators of a block that are no views, by their names.

    Tensors may be on the device ``meta``, which computes nothing, as an accelerator would be asked to. There the answer
    to what a model wants to read is yes, or 1.
    """

    device: str
    kernels: Counter[str] = field(default_factory=Counter)
    waits: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        super().__init__()

    def __torch_dispatch__(self, func: Any, types: Any, args: tuple = (), kwargs: dict | None = None) -> Any:
        name = func._schema.name.removeprefix("aten::")
        tensors = [value for value in args if isinstance(value, Tensor)]
        # fairseq's lengths are tensors that have never left the host.
        is_on_host = self.device != "cpu" and all(value.device.type == "cpu" for value in tensors)
        by_mask = name.startswith(("index", "_index_put")) and any(
            isinstance(index, Tensor) and index.dtype in (torch.bool, torch.uint8)
            for indices in args
            if isinstance(indices, list | tuple)
            for index in indices
        )
        if is_on_host:
            pass
        elif name in WAITING or by_mask:
            self.waits[name] += 1
        elif name not in FREE and not func.is_view:
            self.kernels[name] += 1
        if name == "_local_scalar_dense" and tensors[0].is_meta:
            return True if tensors[0].dtype == torch.bool else 1
        return func(*args, **(kwargs or {}))

    def __hash__(self) -> int:
        return id(self)


def operators(run: Callable[[], Any], device: str = "meta") -> Operators:
    """What a call asks for."""
    with Operators(device) as found:
        run()
    return found
