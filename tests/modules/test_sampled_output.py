"""The loss over fixed and drawn symbols is that of all symbols: in expectation, and exactly if all are drawn."""

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from fairseq_ext.modules.sampled_output import SampledOutput

SYMBOLS, WIDTH = 50, 16
ORDER = torch.randperm(SYMBOLS, generator=torch.Generator().manual_seed(5))


def make(rows: int = 600, is_trained: bool = True) -> tuple[Tensor, Tensor, Tensor]:
    """Features, a table and targets, some of which are not fixed."""
    torch.manual_seed(1)
    target = ORDER[:25][torch.randint(25, (rows,))]
    weight = torch.randn(SYMBOLS, WIDTH, requires_grad=is_trained)
    return torch.randn(rows, WIDTH, requires_grad=True), weight, target


def sampled(few: int, many: int) -> SampledOutput:
    """Twenty fixed symbols, and samples of ten and of twenty others."""
    return SampledOutput(ORDER[:20], [(ORDER[20:30], few), (ORDER[30:], many)])


@pytest.mark.parametrize("is_trained", [True, False])
@pytest.mark.parametrize("bias", [None, torch.linspace(-2, 2, SYMBOLS)])
def test_with_all_drawn_it_is_the_full_cross_entropy(is_trained: bool, bias: Tensor | None) -> None:
    features, weight, target = make(is_trained=is_trained)
    wanted = [features, weight] if is_trained else [features]
    full = F.cross_entropy(F.linear(features, weight, bias), target, reduction="sum")
    output = sampled(10, 99)
    for _ in range(2):  # also with the rows that are kept
        own = output.loss(features, weight, bias, target)
        assert own.item() == pytest.approx(full.item(), rel=1e-6)
        gradients = torch.autograd.grad(3 * own, wanted)
        for ours, theirs in zip(gradients, torch.autograd.grad(3 * full, wanted, retain_graph=True), strict=True):
            torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize(("few", "many"), [(1, 2), (5, 4)])
def test_the_denominator_is_unbiased(few: int, many: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Over all cyclic draws, in which every symbol of a group occurs equally often. The target is not drawn."""
    features, weight, _ = make(1)
    target, logits = ORDER[20:21], (features @ weight.t()).detach()
    found = []
    for first in range(9 * 20):
        monkeypatch.setattr(torch, "randperm", lambda n, device, first=first: (torch.arange(n) + first) % n)
        found.append((sampled(few, many).loss(features, weight, None, target) + logits[0, target]).exp())
    assert torch.stack(found).mean().item() == pytest.approx(logits.exp().sum().item(), rel=1e-5)


@pytest.mark.parametrize(("many", "wins"), [(5, False), (0, True)])
def test_a_symbol_that_is_left_out_cannot_win(many: int, wins: bool) -> None:
    """It does if it is never drawn, as its logit is the largest before training."""
    weight = torch.eye(SYMBOLS)  # features are logits
    first, left_out = int(ORDER[0]), int(ORDER[-1])
    features = (10 * weight[left_out]).repeat(8, 1).requires_grad_()
    output, optimizer = sampled(10, many), torch.optim.SGD([features], 0.5)
    for _ in range(100):
        optimizer.zero_grad()
        output.loss(features, weight, None, torch.full((8,), first)).backward()
        optimizer.step()
    assert (F.linear(features, weight).argmax(1) == left_out).all() == wins
    assert (F.linear(features, weight).argmax(1) == first).all() != wins


def test_products_are_in_the_precision_of_autocast() -> None:
    features, weight, target = make()
    exact = sampled(10, 20).loss(features, weight, None, target)
    with torch.autocast("cpu", torch.bfloat16):
        rounded = sampled(10, 20).loss(features, weight, None, target)
    assert rounded.dtype == torch.float32
    assert exact.item() != rounded.item() == pytest.approx(exact.item(), rel=1e-2)
    rounded.backward()
    assert features.grad is not None
    assert features.grad.dtype == weight.grad.dtype == torch.float32  # type: ignore[union-attr]
