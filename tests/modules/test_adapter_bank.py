import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from fairseq_ext.modules.adapter_bank import AdapterBank
from tests.modules.banks import randomised

H, B_DIM, D = 12, 5, 3


def make_bank(shared_norm: bool = False) -> AdapterBank:
    return randomised(AdapterBank(H, B_DIM, D, shared_norm=shared_norm))


def one_adapter(bank: AdapterBank, x: Tensor, d: int) -> Tensor:
    """The adapter as the papers write it: up(relu(down(norm(x))))."""
    norm = 0 if bank.shared_norm else d
    normed = F.layer_norm(x, (H,), bank.norm_weight[norm], bank.norm_bias[norm])
    hidden = F.relu(normed @ bank.down_weight[d].t() + bank.down_bias[d])
    return hidden @ bank.up_weight[d] + bank.up_bias[d]


@pytest.mark.parametrize("rows", [7, 1])
@pytest.mark.parametrize("shared_norm", [False, True])
def test_equals_the_sum_of_single_adapters_and_so_do_its_gradients(shared_norm: bool, rows: int) -> None:
    bank = make_bank(shared_norm).double()
    x, towards = torch.randn(7, 4, H, dtype=torch.double, requires_grad=True), torch.randn(7, 4, H)
    weights = torch.rand(rows, 4, D, dtype=torch.double).softmax(-1).requires_grad_()
    expected = x + sum(weights[..., d, None] * one_adapter(bank, x, d) for d in range(D))
    out = bank(x, weights)
    torch.testing.assert_close(out, expected)
    inputs = x, weights, *bank.parameters()
    own, autograds = (torch.autograd.grad((each * towards).sum(), inputs) for each in (out, expected))
    torch.testing.assert_close(own, autograds)


def test_an_active_subset_is_zero_weights_elsewhere_and_alone_gets_gradients() -> None:
    bank, x = make_bank(), torch.randn(7, 4, H)
    weights = torch.tensor([0.3, 0.0, 0.7]).expand(7, 4, D)
    out = bank(x, weights[..., [0, 2]], active=[0, 2])
    torch.testing.assert_close(out, bank(x, weights))
    out.sum().backward()
    for name, parameter in bank.named_parameters():
        assert parameter.grad is not None
        assert parameter.grad.flatten(1).any(1).tolist() == [True, False, True], name


def test_folded_for_decoding_it_gives_the_same_until_it_trains_or_is_loaded() -> None:
    bank, x, weights = make_bank().eval(), torch.randn(7, 4, H), torch.rand(7, 4, D).softmax(-1)
    before, keys = bank(x, weights), bank.state_dict().keys()
    bank.make_generation_fast_()
    assert torch.equal(bank(x, weights), before)
    assert bank.state_dict().keys() == keys
    loaded, other = {name: 2 * value for name, value in bank.state_dict().items()}, AdapterBank(H, B_DIM, D)
    bank.load_state_dict(loaded)
    other.load_state_dict(loaded)
    assert torch.equal(bank(x, weights), other(x, weights))
    bank.make_generation_fast_()
    bank.norm_weight.data.zero_()
    assert not torch.equal(bank.train()(x, weights), other(x, weights))


def test_a_fresh_bank_is_the_identity_under_autocast() -> None:
    """Also of what half precision cannot hold."""
    x = torch.randn(7, 4, H)
    x[0, 0, 0] = 70_000.0
    for active in (None, [1], [0, 2]):
        size = D if active is None else len(active)
        for shape in ((1, 1, size), (7, 4, size)):
            with torch.autocast("cpu", torch.float16):
                out = AdapterBank(H, B_DIM, D)(x, torch.full(shape, 1 / size), active)
            assert out.dtype == torch.float32
            assert torch.equal(out, x)


def test_under_autocast_results_without_gradients_are_those_with_them() -> None:
    device = "cuda" if torch.cuda.is_available() else "cpu"  # whose lists of lowered operators differ
    bank, x, weights = (each.to(device) for each in (make_bank(), torch.randn(7, 4, H), torch.rand(7, 4, D)))
    with torch.autocast(device, torch.bfloat16):
        trained = bank(x, weights)
        with torch.no_grad():
            assert torch.equal(bank(x, weights), trained)


def test_initial_weights_are_at_most_two_standard_deviations() -> None:
    weights = AdapterBank(64, 64, D, init_scale=0.5).down_weight.detach()  # some would be larger
    assert 0.9 < float(weights.abs().max()) <= 1.0


@pytest.mark.parametrize("within", [True, False])
def test_gradients_under_autocast_are_near_those_without(within: bool) -> None:
    """Wherever the backward pass begins, as those of the formula itself are."""
    bank = make_bank()

    def gradients(dtype: torch.dtype, enabled: bool) -> list[Tensor]:
        x = torch.randn(7, 4, H, generator=torch.Generator().manual_seed(1)).requires_grad_()
        weights = torch.rand(7, 4, D, generator=torch.Generator().manual_seed(2)).softmax(-1).requires_grad_()
        with torch.autocast("cpu", dtype, enabled=enabled):
            loss = bank(x, weights).square().mean()
        with torch.autocast("cpu", dtype, enabled=within):
            return list(torch.autograd.grad(loss, (x, weights, *bank.parameters())))

    for dtype, tolerance in ((torch.float16, 0.01), (torch.bfloat16, 0.05)):
        for low, full in zip(gradients(dtype, True), gradients(dtype, False), strict=True):
            assert low.dtype == torch.float32
            torch.testing.assert_close(low, full, atol=tolerance * float(full.abs().max()), rtol=0)
