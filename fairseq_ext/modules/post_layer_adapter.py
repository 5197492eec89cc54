"""Adapters at the end of a Transformer layer, without touching the layer's code."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from threading import local
from typing import Any, Generic, TypeVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from fairseq_ext.modules.adapter_bank import Bank
from fairseq_ext.modules.routers import RoutingBatch

T = TypeVar("T")


class ThreadValue(local, Generic[T]):
    """A thread-local value that hooks need for the current call, so that threads can share a model."""

    value: T | None = None

    @contextmanager
    def during(self, value: T | None) -> Iterator[None]:
        """Set this thread's value until the block ends."""
        before, self.value = self.value, value
        try:
            yield
        finally:
            self.value = before


_batch: ThreadValue[RoutingBatch] = ThreadValue()
# `with routing(batch):` sets the batch that adapters of this thread route.
routing = _batch.during


def current_batch() -> RoutingBatch:
    if _batch.value is None:
        raise RuntimeError("an adapted layer was called outside `routing`, so its router has no batch")
    return _batch.value


class PostLayerAdapter(nn.Module):
    """A bank and its router, hooked behind the feed-forward residual of a fairseq Transformer layer.

    Pre-norm layers end with that residual, so their output is adapted. Post-norm layers apply a further
    norm, so the input of ``final_layer_norm`` is adapted. Hooks leave the layer's parameters and their
    names unchanged and serve encoder and decoder layers alike. They are bound methods, so that a deep
    copy of the model uses its own adapters and not the original's.

    Dropout is applied to the adapters' output before the residual, with one mask for the mixture; the code of
    Klimaszewski et al. (2023) draws one for each adapter.
    """

    def __init__(self, bank: Bank, router: nn.Module, dropout: float = 0.0):
        super().__init__()
        self.bank = bank
        self.router = router
        self.dropout = dropout

    def attach(self, layer: Any) -> None:
        """Become ``layer.adapter`` and adapt the layer's output from now on."""
        layer.adapter = self
        if layer.normalize_before:
            layer.register_forward_hook(self._after_layer)
        else:
            layer.final_layer_norm.register_forward_pre_hook(self._before_norm)

    def forward(self, x: Tensor) -> Tensor:
        """Adapt hidden states with the routing of the current batch: T×B×H → T×B×H."""
        # Not called as a module: hooks on modules, such as fairseq's NanDetector, expect tensors.
        mixture = self.router.forward(x, current_batch())
        if not (self.training and self.dropout):
            return mixture(self.bank, x, x)
        return x + F.dropout(mixture(self.bank, x, torch.zeros_like(x)), self.dropout)

    def _after_layer(self, _layer: nn.Module, _args: tuple, output: Any) -> Any:
        # Encoder layers return x, or x with the FFN's output; decoder layers x, attention, state.
        return (self(output[0]), *output[1:]) if isinstance(output, tuple) else self(output)

    def _before_norm(self, _norm: nn.Module, args: tuple) -> tuple:
        return (self(args[0]),)
