import pytest
import torch
from torch import Tensor

from fairseq_ext.modules.adapter_bank import AdapterBank
from fairseq_ext.modules.chosen_adapters import choose
from tests.modules.banks import randomised

T, B, H, D = 7, 6, 8, 5


def random_weights(k: int, threshold: float = 0.0) -> Tensor:
    """T×B×D, of which k of a position are not zero at most, those above a threshold."""
    weights, adapters = torch.randn(T, B, D, dtype=torch.double).softmax(-1).topk(k, -1)
    return torch.zeros(T, B, D, dtype=torch.double).scatter(-1, adapters, weights * weights.ge(threshold))


@pytest.mark.parametrize(("k", "threshold"), [(1, 0.0), (2, 0.0), (2, 0.25), (1, 0.5), (3, 2.0), (D, 0.0)])
@pytest.mark.parametrize("shared_norm", [False, True])
def test_chosen_adapters_are_all_adapters_with_zero_weights(k: int, threshold: float, shared_norm: bool) -> None:
    """The result and every gradient, with the norms folded too; at last of positions that choose nothing at all."""
    bank = randomised(AdapterBank(H, 4, D, shared_norm=shared_norm).double())
    weights = random_weights(k, threshold).requires_grad_()
    x = torch.randn(T, B, H, dtype=torch.double, requires_grad=True)
    chosen = choose(weights, x, k)
    sparse, dense = bank.mix_chosen(x, chosen), bank(x, weights)
    torch.testing.assert_close(sparse, dense)
    towards, inputs = torch.randn_like(dense), [x, weights, *bank.parameters()]
    own, expected = (torch.autograd.grad(out, inputs, towards) for out in (sparse, dense))
    torch.testing.assert_close(own[1], expected[1] * weights.ne(0))
    for one, other in zip(own[:1] + own[2:], expected[:1] + expected[2:], strict=True):
        torch.testing.assert_close(one, other)
    bank.make_generation_fast_()
    torch.testing.assert_close(bank.mix_chosen(x, choose(weights, x, k)), dense)
