import pytest
import torch
from torch import nn

from fairseq_ext.modules.adapter_bank import AdapterBank
from fairseq_ext.modules.routers import GateRouter, GivenRouter, RoutingBatch

H, D = 8, 3


@pytest.fixture
def bank() -> AdapterBank:
    torch.manual_seed(1)
    bank = AdapterBank(H, 4, D)
    for parameter in bank.parameters():
        nn.init.normal_(parameter, std=0.5)
    return bank


def test_each_row_goes_through_the_adapter_of_its_domain(bank: AdapterBank) -> None:
    x, ids = torch.randn(5, 4, H), torch.tensor([2, 0, 2, 1])
    out = GivenRouter()(x, bank, RoutingBatch(given_weights=nn.functional.one_hot(ids, D)))
    for row, domain in enumerate(ids.tolist()):
        torch.testing.assert_close(out[:, [row]], bank(x[:, [row]], None, active=[domain]))


def test_rows_go_through_their_paths(bank: AdapterBank) -> None:
    x = torch.randn(5, 4, H)
    weights = torch.tensor([[0.5, 0.5, 0.0], [0.0, 0.25, 0.75], [0.5, 0.5, 0.0], [0.0, 0.0, 0.0]])
    out = GivenRouter()(x, bank, RoutingBatch(given_weights=weights))
    torch.testing.assert_close(out, bank(x, weights))
    assert torch.equal(out[:, 3], x[:, 3])


def test_one_row_of_weights_serves_the_whole_batch(bank: AdapterBank) -> None:
    x, weights = torch.randn(5, 4, H), torch.tensor([[0.0, 0.25, 0.75]])
    torch.testing.assert_close(GivenRouter()(x, bank, RoutingBatch(given_weights=weights)), bank(x, weights))


def test_only_adapters_with_weight_are_computed(bank: AdapterBank) -> None:
    x, weights = torch.randn(5, 4, H), torch.tensor([[0.0, 0.5, 0.5]])
    with torch.no_grad():
        bank.down_weight[0] = float("nan")  # would spread to everything computed with it
    assert GivenRouter()(x, bank, RoutingBatch(given_weights=weights)).isfinite().all()


def test_given_routing_needs_weights(bank: AdapterBank) -> None:
    with pytest.raises(ValueError, match="domain or path"):
        GivenRouter()(torch.randn(5, 4, H), bank, RoutingBatch())


def test_every_row_needs_weights(bank: AdapterBank) -> None:
    with pytest.raises(ValueError, match="weights for 2 rows, but 3 rows"):
        GivenRouter()(torch.randn(5, 3, H), bank, RoutingBatch(given_weights=torch.eye(D)[:2]))


def test_gate_is_softmax_of_projected_mean(bank: AdapterBank) -> None:
    gate = GateRouter(H, D, temperature=0.5, causal=False)
    nn.init.normal_(gate.weight)
    x, batch = torch.randn(5, 4, H), RoutingBatch()
    out = gate(x, bank, batch)
    logits = x.mean(0) @ gate.weight.t()
    torch.testing.assert_close(batch.gate_logits[0][0], logits)
    torch.testing.assert_close(out, bank(x, (logits / 0.5).softmax(-1)))


def test_a_gate_gives_way_in_the_rows_that_are_forced(bank: AdapterBank) -> None:
    gate = GateRouter(H, D, temperature=0.5, causal=True)
    nn.init.normal_(gate.weight)
    x, given = torch.randn(5, 3, H), torch.tensor([[0.0, 1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 0.0]])
    batch = RoutingBatch(given_weights=given, is_forced=torch.tensor([True, False, True]))
    out = gate(x, bank, batch)
    torch.testing.assert_close(out[:, [0]], bank(x[:, [0]], None, active=[1]))
    torch.testing.assert_close(out[:, [1]], gate(x[:, [1]], bank, RoutingBatch()))
    assert torch.equal(out[:, 2], x[:, 2])
    assert torch.equal(gate(x, bank, RoutingBatch(given_weights=given)), gate(x, bank, RoutingBatch()))


def test_causal_gate_never_looks_ahead(bank: AdapterBank) -> None:
    gate = GateRouter(H, D, temperature=1.0, causal=True)
    nn.init.normal_(gate.weight)
    x = torch.randn(5, 4, H)
    changed = x.clone()
    changed[3:] += 1
    before, after = (gate(v, bank, RoutingBatch()) for v in (x, changed))
    assert torch.equal(before[:3], after[:3])
    assert not torch.equal(before[3:], after[3:])


def test_a_saturated_gate_is_one_adapter(bank: AdapterBank) -> None:
    gate = GateRouter(H, D, temperature=1e-4, causal=False)
    nn.init.normal_(gate.weight)
    x, batch = torch.randn(5, 1, H), RoutingBatch()
    out = gate(x, bank, batch)
    chosen = int(batch.gate_logits[0].argmax())
    torch.testing.assert_close(out, bank(x, None, active=[chosen]))


def test_a_temperature_must_be_positive() -> None:
    with pytest.raises(ValueError, match="temperature"):
        GateRouter(H, D, temperature=0.0, causal=False)
