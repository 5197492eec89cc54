"""A bank behind a layer: what it adds, and dropout of that."""

from __future__ import annotations

import torch

from fairseq_ext.modules.adapter_bank import AdapterBank
from fairseq_ext.modules.post_layer_adapter import PostLayerAdapter, routing
from fairseq_ext.modules.routers import GivenRouter, RoutingBatch


def test_dropout_is_of_what_adapters_add() -> None:
    torch.manual_seed(1)
    bank = AdapterBank(8, 4, 2)
    torch.nn.init.normal_(bank.up_bias)
    adapter, x = PostLayerAdapter(bank, GivenRouter(), dropout=0.5), torch.randn(5, 4, 8)
    with routing(RoutingBatch(given_weights=torch.tensor([[0.0, 1.0]]))):
        added = adapter.eval()(x) - x
        dropped = adapter.train()(x) - x
    is_kept = dropped.abs() > 1e-6
    assert 0 < int(is_kept.sum()) < is_kept.numel()
    torch.testing.assert_close(dropped[is_kept], 2 * added[is_kept], atol=1e-5, rtol=1e-5)
