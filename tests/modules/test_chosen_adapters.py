from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from fairseq_ext.modules.adapter_bank import AdapterBank
from fairseq_ext.modules.chosen_adapters import Choice, DeviceRows, HostRows, adapter_rows

T, B, H, D = 7, 6, 8, 5


def random_bank(shared_norm: bool = False) -> AdapterBank:
    torch.manual_seed(1)
    bank = AdapterBank(H, 4, D, shared_norm=shared_norm).double()
    for parameter in bank.parameters():
        nn.init.normal_(parameter, std=0.5)
    return bank


def random_choice(k: int, threshold: float = 0.0) -> Choice:
    weights, adapters = torch.randn(T, B, D, dtype=torch.double).softmax(-1).topk(k, -1)
    return Choice(adapters, weights * weights.ge(threshold), may_skip=threshold > 0)


def rows_of(kind: type, choice: Choice, x: Tensor) -> tuple[Any, Tensor]:
    flat = choice.of_positions(x)
    return kind(flat.adapters, flat.weights.ne(0) if choice.may_skip else None, D), flat.weights


@pytest.mark.parametrize("kind", [HostRows, DeviceRows])
@pytest.mark.parametrize(("k", "threshold"), [(1, 0.0), (2, 0.0), (2, 0.25), (1, 0.5), (3, 2.0), (D, 0.0)])
@pytest.mark.parametrize("shared_norm", [False, True])
def test_chosen_adapters_are_all_adapters_with_zero_weights(
    kind: type, k: int, threshold: float, shared_norm: bool
) -> None:
    """The result and every gradient, with the norms folded too; at last of positions that choose nothing at all."""
    bank, choice = random_bank(shared_norm), random_choice(k, threshold)
    x = torch.randn(T, B, H, dtype=torch.double, requires_grad=True)
    weights = choice.weights.requires_grad_()
    rows, flat = rows_of(kind, choice, x)
    sparse, dense = bank.mix_chosen(x, rows, flat), bank(x, choice.dense(D))
    torch.testing.assert_close(sparse, dense)
    towards, inputs = torch.randn_like(dense), [x, weights, *bank.parameters()]
    own, expected = (torch.autograd.grad(out, inputs, towards) for out in (sparse, dense))
    kept = weights.ne(0)
    torch.testing.assert_close(own[1], expected[1] * kept if choice.may_skip else expected[1])
    for one, other in zip(own[:1] + own[2:], expected[:1] + expected[2:], strict=True):
        torch.testing.assert_close(one, other)
    bank.make_generation_fast_()
    torch.testing.assert_close(bank.mix_chosen(x, rows, flat), dense)


@pytest.mark.parametrize("kind", [HostRows, DeviceRows])
def test_adapters_of_no_weight_are_not_computed(kind: type) -> None:
    bank, choice = random_bank(), random_choice(1)
    with torch.no_grad():
        bank.up_weight[2] = float("nan")
    chosen = choice.adapters.eq(2)
    choice = Choice(choice.adapters, choice.weights.masked_fill(chosen, 0))
    x = torch.randn(T, B, H, dtype=torch.double)
    out = bank.mix_chosen(x, *rows_of(kind, choice, x))
    assert chosen.any()
    assert torch.equal(out[chosen.squeeze(-1)], x[chosen.squeeze(-1)])
    assert out.isfinite().all()


def test_what_is_not_trained_gets_no_gradient() -> None:
    bank, x = random_bank().requires_grad_(False), torch.randn(T, B, H, dtype=torch.double, requires_grad=True)
    bank.mix_chosen(x, *rows_of(HostRows, random_choice(2), x)).sum().backward()
    assert x.grad is not None
    assert all(parameter.grad is None for parameter in bank.parameters())


def test_a_device_has_blocks_enough_however_the_rows_fall() -> None:
    """All of one adapter, as even as can be, and each adapter one row more than fills its blocks."""
    for counts in ([1000, 0, 0], [334, 333, 333], [17, 33, 1], [1, 1, 1], [2, 0, 0]):
        adapters = torch.arange(3).repeat_interleave(torch.tensor(counts)).unsqueeze(1)
        rows = DeviceRows(adapters[torch.randperm(len(adapters))], None, 3)
        x = torch.arange(float(len(adapters))).unsqueeze(1)
        assert torch.equal(rows.lay_out(x)[rows.entries.squeeze(1)], x)


def test_the_device_decides_how_rows_are_laid_out() -> None:
    choice = Choice(torch.zeros(4, 1, dtype=torch.long), torch.ones(4, 1))
    assert isinstance(adapter_rows(choice, 2), HostRows)
    away = Choice(choice.adapters.to("meta"), choice.weights.to("meta"))
    assert isinstance(adapter_rows(away, 2), DeviceRows)
