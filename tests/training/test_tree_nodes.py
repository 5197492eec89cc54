import pytest
import torch
from torch import nn

from fairseq_ext.errors import InputError
from fairseq_ext.modules.adapter_bank import AdapterBank
from fairseq_ext.training.tree_nodes import node_names_entry, only_active_nodes_change, read_node_names

H, N = 6, 4


@pytest.fixture
def bank() -> AdapterBank:
    torch.manual_seed(1)
    bank = AdapterBank(H, 3, N, shared_norm=True)
    for parameter in bank.parameters():
        nn.init.normal_(parameter)
    return bank


def step(
    bank: AdapterBank, optimizer: torch.optim.Optimizer, active: list[int], trained: range | list[int] = range(N)
) -> None:
    optimizer.zero_grad()
    weights = torch.full((len(active),), 1 / len(active))
    bank(torch.randn(5, 2, H), weights if len(active) > 1 else None, active=active).square().sum().backward()
    with only_active_nodes_change(optimizer, [bank], trained):
        optimizer.step()


def moved(bank: AdapterBank, before: dict) -> set[int]:
    return {
        row for row in range(N) for kind in bank.STACKED if not torch.equal(getattr(bank, kind)[row], before[kind][row])
    }


def copy_of(bank: AdapterBank) -> dict:
    return {name: value.clone() for name, value in bank.state_dict().items()}


@pytest.mark.parametrize("kind", [torch.optim.Adam, torch.optim.AdamW, torch.optim.SGD])
def test_only_active_nodes_move(bank: AdapterBank, kind: type) -> None:
    """Also when they have momentum, and weights decay."""
    options = {"momentum": 0.9} if kind is torch.optim.SGD else {}
    optimizer = kind(bank.parameters(), lr=0.1, weight_decay=0.1, **options)
    step(bank, optimizer, [0, 1, 2, 3])
    before = copy_of(bank)
    step(bank, optimizer, [1, 3])
    assert moved(bank, before) == {1, 3}
    assert not torch.equal(bank.norm_weight, before["norm_weight"])


def test_an_inactive_node_does_not_age(bank: AdapterBank) -> None:
    """What the optimiser remembers of a node is the same after steps without it."""
    optimizer = torch.optim.Adam(bank.parameters(), lr=0.1)
    step(bank, optimizer, [0, 1])
    remembered = optimizer.state[bank.up_weight]["exp_avg"][0].clone()
    step(bank, optimizer, [1, 2])
    assert torch.equal(optimizer.state[bank.up_weight]["exp_avg"][0], remembered)


def test_only_nodes_to_be_trained_move(bank: AdapterBank) -> None:
    optimizer = torch.optim.Adam(bank.parameters(), lr=0.1)
    before = copy_of(bank)
    step(bank, optimizer, [0, 1, 2], trained=[2, 3])
    assert moved(bank, before) == {2}


def test_a_flat_copy_of_the_weights_is_refused(bank: AdapterBank) -> None:
    flat = nn.Parameter(torch.cat([p.detach().flatten() for p in bank.parameters()]))
    bank(torch.randn(5, 2, H), None, active=[0]).sum().backward()
    with (
        pytest.raises(InputError, match="memory-efficient-fp16"),
        only_active_nodes_change(torch.optim.Adam([flat]), [bank], range(N)),
    ):
        raise AssertionError("must not step")


def test_node_names_survive() -> None:
    assert read_node_names(node_names_entry(["root", "söhne"])) == ["root", "söhne"]


def test_damaged_node_names_are_refused() -> None:
    with pytest.raises(InputError, match="node_names"):
        read_node_names(torch.tensor([1, 2, 255], dtype=torch.uint8))
