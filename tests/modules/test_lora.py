"""LoRA's bank against the formula of the paper, however it is mixed."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from fairseq_ext.modules.chosen_adapters import DeviceRows, HostRows
from fairseq_ext.modules.lora import LoraBank
from fairseq_ext.modules.routers import Mixture, chosen, weighted

IN, OUT, D = 6, 5, 3


def by_formula(bank: LoraBank, x: Tensor, weights: Tensor, onto: Tensor) -> Tensor:
    """``y + α/r · Σ_d w_d · B_d A_d x``, Eq. 3."""
    for d in range(D):
        onto = onto + weights[..., [d]] * 3 / 2 * (x @ bank.down_weight[d].t() @ bank.up_weight[d])
    return onto


def rows_of(kind: type, weights: Tensor) -> Mixture:
    values, adapters = weights.flatten(0, 1).topk(2)
    return chosen(kind(adapters, values.ne(0), D), values)


@pytest.mark.parametrize("form", ["weighted", "on the host", "on a device"])
def test_a_mixture_is_the_formula_and_so_are_its_gradients(form: str) -> None:
    torch.manual_seed(1)
    bank = LoraBank(IN, OUT, rank=2, num_adapters=D, alpha=3)
    torch.nn.init.normal_(bank.down_weight)
    torch.nn.init.normal_(bank.up_weight)
    weights = torch.tensor([[0.7, 0.3, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 0.0], [0.0, 0.5, 0.5]]).expand(3, 4, D)
    forms = {
        "weighted": weighted,
        "on the host": lambda w: rows_of(HostRows, w),
        "on a device": lambda w: rows_of(DeviceRows, w),
    }
    found = []
    for compute in (lambda w, x, y: forms[form](w)(bank, x, y), lambda w, x, y: by_formula(bank, x, w, y)):
        torch.manual_seed(2)
        x, y, own = (v.requires_grad_() for v in (torch.randn(3, 4, IN), torch.randn(3, 4, OUT), weights.clone()))
        out = compute(own, x, y)
        out.square().sum().backward()
        grads = [x.grad, y.grad, bank.down_weight.grad, bank.up_weight.grad]
        found.append([out, *grads, own.grad * own.ne(0)])
        bank.zero_grad()
    for ours, expected in zip(*found, strict=True):
        torch.testing.assert_close(ours, expected, atol=1e-4, rtol=1e-4)
