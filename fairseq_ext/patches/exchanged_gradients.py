"""Processes that train together exchange the gradients that one of them has, and nothing else.

fairseq's exchange has room for all parameters, frozen ones too, and leaves gradients of zero where there were none. Of
a tree of hundreds of nodes few have any in a step. And it sends them, through sockets, which between processes of one
machine takes three times as long as memory that they share.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import torch
from fairseq.distributed import LegacyDistributedDataParallel
from fairseq.distributed import utils as distributed_utils
from torch import Tensor
from torch.nn import Parameter

from fairseq_ext.engine.shared_means import DTYPE, SharedMeans
from fairseq_ext.modules.thread_value import ThreadValue

# Set in the processes that one of ours has forked.
MEANS = ThreadValue[SharedMeans]()

_MOST = 2**28  # numbers that are sent at once, fairseq's own limit


def exchange_only_gradients() -> None:
    """Let ``--ddp-backend legacy_ddp`` come by parameters that have no gradient in any process."""
    exchange = LegacyDistributedDataParallel.all_reduce_grads
    if not hasattr(exchange, "__wrapped__"):
        LegacyDistributedDataParallel.all_reduce_grads = _of_active(exchange)


def _of_active(exchange: Callable[[Any], None]) -> Callable[[Any], None]:
    @functools.wraps(exchange)
    def exchange_active(self: Any) -> None:
        if self.accumulate_grads:
            return
        everything = self.per_device_params
        trained = [p for parameters in everything for p in parameters if p.requires_grad]
        device = next(self.module.parameters()).device
        are_active = torch.tensor([p.grad is not None for p in trained], dtype=torch.int32, device=device)
        distributed_utils.all_reduce(are_active, self.process_group, op="max")
        moved = [p for p, is_active in zip(trained, are_active.tolist(), strict=True) if is_active]
        if MEANS.value is not None and _are_plain(moved):
            MEANS.value.take([_gradient_of(p) for p in moved])
            return
        active = {id(p) for p in moved}
        self.per_device_params = [[p for p in parameters if id(p) in active] for parameters in everything]
        size = sum(p.numel() for parameters in self.per_device_params for p in parameters)
        self.buffer, self.buffer_size = None, min(size, _MOST)
        try:
            exchange(self)
        finally:
            self.per_device_params, self.buffer = everything, None

    return exchange_active


def _are_plain(parameters: Sequence[Parameter]) -> bool:
    return all(p.is_cpu and p.dtype == DTYPE and not hasattr(p, "expert") for p in parameters)


def _gradient_of(parameter: Parameter) -> Tensor:
    if parameter.grad is None:
        parameter.grad = torch.zeros_like(parameter)
    return parameter.grad
