"""The single adapter: its formula, its size, its start."""

import math

import pytest
import torch
from torch import nn

from fairseq_ext.modules.task_parameters import ACTIVATIONS, HoulsbyAdapter

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


def test_at_scale_0_it_is_the_identity_and_only_an_offset_learns() -> None:
    adapter, x = HoulsbyAdapter(H, B, 0.0), torch.randn(7, H)
    assert torch.equal(adapter(x), x)
    adapter(x).square().sum().backward()
    assert [name for name, p in adapter.named_parameters() if p.grad.any()] == ["up.bias"]


def test_activations_are_those_of_fairseq() -> None:
    from fairseq.utils import get_activation_fn

    x = torch.linspace(-4, 4, 50)
    for name in ACTIVATIONS.keys() - {"swish"}:  # fairseq gives a class there
        torch.testing.assert_close(ACTIVATIONS[name](x), get_activation_fn(name)(x))
    torch.testing.assert_close(ACTIVATIONS["swish"](x), x * torch.sigmoid(x))
