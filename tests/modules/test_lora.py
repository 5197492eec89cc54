"""LoRA's bank against the formula of the paper, however it is mixed."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from fairseq_ext.modules.chosen_adapters import choose
from fairseq_ext.modules.lora import LoraBank
from fairseq_ext.modules.routers import Mixture, sparse, weighted
from tests.modules.banks import randomised

IN, OUT, D = 6, 5, 3


def by_formula(bank: LoraBank, x: Tensor, weights: Tensor, onto: Tensor) -> Tensor:
    """``y + α/r · Σ_d w_d · B_d A_d x``, Eq. 3."""
    for d in range(D):
        onto = onto + weights[..., [d]] * 3 / 2 * (x @ bank.down_weight[d].t() @ bank.up_weight[d])
    return onto


def of_two(weights: Tensor) -> Mixture:
    return sparse(choose(weights, weights, 2))


@pytest.mark.parametrize("form", [weighted, of_two])
def test_a_mixture_is_the_formula_and_so_are_its_gradients(form: Callable[[Tensor], Mixture]) -> None:
    bank = randomised(LoraBank(IN, OUT, rank=2, num_adapters=D, alpha=3), std=1)
    weights = torch.tensor([[0.7, 0.3, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 0.0], [0.0, 0.5, 0.5]])
    own = weights.repeat(3, 1, 1).requires_grad_()
    x, y = torch.randn(3, 4, IN, requires_grad=True), torch.randn(3, 4, OUT, requires_grad=True)
    found = []
    for out in (form(own)(bank, x, y), by_formula(bank, x, own, y)):
        *grads, of_weights = torch.autograd.grad(out.square().sum(), (x, y, *bank.parameters(), own))
        found.append([out, *grads, of_weights * own.ne(0)])
    torch.testing.assert_close(*found, atol=1e-4, rtol=1e-4)
