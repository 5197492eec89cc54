"""The single adapter: its formula and its start."""

import math

import pytest
import torch
from torch import nn

from fairseq_ext.modules.task_parameters import HoulsbyAdapter

H, B = 12, 5


def test_is_a_bottleneck_with_a_skip_connection() -> None:
    torch.manual_seed(1)
    adapter, x = HoulsbyAdapter(H, B), torch.randn(7, 2, H)
    for parameter in adapter.parameters():
        nn.init.normal_(parameter)
    inner = x @ adapter.down.weight.t() + adapter.down.bias
    gelu = inner * 0.5 * (1 + torch.erf(inner / math.sqrt(2)))
    expected = x + gelu @ adapter.up.weight.t() + adapter.up.bias
    torch.testing.assert_close(adapter(x), expected)


@pytest.mark.parametrize("scale", [1e-7, 1e-2, 1.0])
def test_starts_from_a_truncated_normal(scale: float) -> None:
    torch.manual_seed(1)
    adapter = HoulsbyAdapter(300, 200, scale)
    for projection in (adapter.down, adapter.up):
        assert projection.weight.abs().max() <= 2 * scale
        # A normal distribution cut at two standard deviations has 0.88 of its spread left.
        assert projection.weight.std().item() == pytest.approx(0.8796 * scale, rel=0.02)
        assert not projection.bias.any()
