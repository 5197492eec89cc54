import copy

import pytest
import torch
from torch import Tensor

from fairseq_ext.modules.adapter_bank import AdapterBank
from fairseq_ext.modules.node_bank import NodeBank
from fairseq_ext.modules.routers import GivenRouter, RoutingBatch
from tests.modules.banks import randomised

H, B_DIM, N = 6, 3, 5


@pytest.fixture
def bank() -> NodeBank:
    return randomised(NodeBank(H, B_DIM, N), std=1)


def states(*shape: int) -> Tensor:
    return torch.randn(*shape, H, generator=torch.Generator().manual_seed(2))


@pytest.mark.parametrize("active", [None, [2], [0, 3, 4]])
def test_computes_what_stacked_parameters_do(bank: NodeBank, active: list[int] | None) -> None:
    """Bit for bit, with gradients and without, and so are the gradients of the nodes; the others have none."""
    numbers = list(range(N)) if active is None else active
    weights = torch.full((len(numbers),), 1 / len(numbers)) if len(numbers) > 1 else torch.ones(1)
    stacked = AdapterBank(H, B_DIM, N, shared_norm=True)
    stacked.load_state_dict(bank.state_dict())
    assert sum(p.numel() for p in bank.parameters()) == sum(p.numel() for p in stacked.parameters())
    out, expected = (each(states(4, 2), weights, active) for each in (bank, stacked))
    assert torch.equal(out, expected)
    with torch.no_grad():
        assert torch.equal(bank(states(4, 2), weights, active), expected)
    out.square().sum().backward()
    expected.square().sum().backward()
    for kind in bank.row_names:
        found = dict(bank.gradients(kind))
        assert sorted(found) == numbers
        for node, grad in found.items():
            assert torch.equal(grad, getattr(stacked, kind).grad[node])


@pytest.mark.parametrize("change", ["half", "copy", "load", "assign"])
def test_parameters_stay_views_of_what_is_stored(bank: NodeBank, change: str) -> None:
    before = bank.nodes["down_bias"][1].clone()
    original = bank
    if change == "half":
        bank = bank.half()
    elif change == "copy":
        bank = copy.deepcopy(bank)
    else:
        bank.load_state_dict({k: v + 1 for k, v in bank.state_dict().items()}, assign=change == "assign")
        before += 1
    assert all(p.dtype == bank.up_bias.dtype for p in bank.parameters())
    torch.testing.assert_close(bank.nodes["down_bias"][1].float(), before, atol=1e-2, rtol=1e-2)
    with torch.no_grad():
        bank.nodes["down_bias"][1].fill_(9)
    assert bank.state_dict()["down_bias"][1].eq(9).all()
    assert not bank.down_bias[2].eq(9).any()
    assert original.down_bias[1].eq(9).all() == (change != "copy")


def test_only_the_nodes_that_a_batch_chose_have_gradients(bank: NodeBank) -> None:
    given, x = torch.tensor([[0.5, 0, 0, 0.5, 0], [0, 0, 0, 0, 1], [0, 0, 0, 0, 0]]), states(4, 3)
    out = GivenRouter(gathers=True)(x, RoutingBatch(given_weights=given))(bank, x, x)
    torch.testing.assert_close(out, bank(x, given), atol=1e-5, rtol=1e-5)
    out.square().sum().backward()
    assert [node for node, _ in bank.gradients("up_weight")] == [0, 3, 4]
    before = {node: grad.double() for node, grad in bank.gradients("up_weight")}
    torch.testing.assert_close(dict(bank.double().gradients("up_weight")), before, rtol=0, atol=0)
