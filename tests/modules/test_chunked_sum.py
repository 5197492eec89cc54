from __future__ import annotations

import pytest
import torch
from torch import Tensor

from fairseq_ext.modules.mixture_of_softmaxes import chunked_sum


def cost(weight: Tensor, hidden: Tensor, targets: Tensor) -> Tensor:
    return -(hidden @ weight.t()).log_softmax(-1).gather(1, targets.unsqueeze(1)).squeeze(1)


def tensors(tokens: int = 7) -> tuple[Tensor, Tensor, Tensor]:
    torch.manual_seed(1)
    weight = torch.randn(5, 3, dtype=torch.double, requires_grad=True)
    hidden = torch.randn(tokens, 3, dtype=torch.double, requires_grad=True)
    return weight, hidden, torch.randint(5, (tokens,))


@pytest.mark.parametrize("size", [1, 3, 7, 100])
def test_gradients_are_those_of_the_sum(size: int) -> None:
    weight, hidden, targets = tensors()
    value = chunked_sum(lambda *chunk: cost(weight, *chunk), hidden, targets, [weight], size)
    expected = cost(weight, hidden, targets).sum()
    torch.testing.assert_close(value, expected)
    wanted = torch.autograd.grad(3 * expected, [weight, hidden])
    torch.testing.assert_close(torch.autograd.grad(3 * value, [weight, hidden]), wanted)


def test_a_chunk_is_gone_before_the_next_one() -> None:
    """No more rows at a time than a chunk has, forward and backward."""
    weight, hidden, targets = tensors()
    seen = []

    def watched(hidden: Tensor, targets: Tensor) -> Tensor:
        seen.append(("forward", len(targets)))
        costs = cost(weight, hidden, targets)
        costs.register_hook(lambda grad: seen.append(("backward", len(grad))))
        return costs

    chunked_sum(watched, hidden, targets, [weight], 3).backward()
    assert seen == [(way, rows) for rows in (3, 3, 1) for way in ("forward", "backward")]


def test_half_precision_is_summed_in_float32() -> None:
    """256 + 1 is 256 in bfloat16."""
    weight = torch.ones(1, dtype=torch.bfloat16, requires_grad=True)
    hidden, targets = torch.ones(300, 1, dtype=torch.bfloat16), torch.zeros(300)
    value = chunked_sum(lambda hidden, _: (hidden * weight).squeeze(1), hidden, targets, [weight], 1)
    assert value.item() == 300
    value.backward()
    assert weight.grad is not None
    assert weight.grad.dtype == torch.bfloat16
    assert weight.grad.item() == torch.tensor(300.0).bfloat16().item()
