import pytest
import torch
from torch import nn

from fairseq_ext.modules.adapter_bank import AdapterBank
from fairseq_ext.modules.routers import GateRouter, GivenRouter, RoutingBatch

H, D = 8, 3


def mixed(router: nn.Module, x: torch.Tensor, bank: AdapterBank, batch: RoutingBatch) -> torch.Tensor:
    out: torch.Tensor = router(x, batch)(bank, x, x)
    return out


@pytest.fixture
def bank() -> AdapterBank:
    torch.manual_seed(1)
    bank = AdapterBank(H, 4, D)
    for parameter in bank.parameters():
        nn.init.normal_(parameter, std=0.5)
    return bank


def test_rows_go_through_their_paths(bank: AdapterBank) -> None:
    x = torch.randn(5, 4, H)
    weights = torch.tensor([[0.5, 0.5, 0.0], [0.0, 0.25, 0.75], [0.5, 0.5, 0.0], [0.0, 0.0, 0.0]])
    out = mixed(GivenRouter(), x, bank, RoutingBatch(given_weights=weights))
    torch.testing.assert_close(out, bank(x, weights))
    assert torch.equal(out[:, 3], x[:, 3])


def test_only_adapters_with_weight_are_computed(bank: AdapterBank) -> None:
    x, weights = torch.randn(5, 4, H), torch.tensor([[0.0, 0.5, 0.5]])
    with torch.no_grad():
        bank.down_weight[0] = float("nan")  # would spread to everything computed with it
    assert mixed(GivenRouter(), x, bank, RoutingBatch(given_weights=weights)).isfinite().all()


def test_gate_is_softmax_of_projected_mean(bank: AdapterBank) -> None:
    gate = GateRouter(H, D, temperature=0.5, causal=False)
    nn.init.normal_(gate.weight)
    x, batch = torch.randn(5, 4, H), RoutingBatch()
    out = mixed(gate, x, bank, batch)
    logits = x.mean(0) @ gate.weight.t()
    torch.testing.assert_close(batch.gate_logits[0][0], logits)
    torch.testing.assert_close(out, bank(x, (logits / 0.5).softmax(-1)))


def test_a_gate_gives_way_in_the_rows_that_are_forced(bank: AdapterBank) -> None:
    gate = GateRouter(H, D, temperature=0.5, causal=True)
    nn.init.normal_(gate.weight)
    x, given = torch.randn(5, 3, H), torch.tensor([[0.0, 1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 0.0]])
    batch = RoutingBatch(given_weights=given, is_forced=torch.tensor([True, False, True]))
    out = mixed(gate, x, bank, batch)
    torch.testing.assert_close(out[:, [0]], bank(x[:, [0]], torch.ones(1), active=[1]))
    torch.testing.assert_close(out[:, [1]], mixed(gate, x[:, [1]], bank, RoutingBatch()))
    assert torch.equal(out[:, 2], x[:, 2])
    assert torch.equal(mixed(gate, x, bank, RoutingBatch(given_weights=given)), mixed(gate, x, bank, RoutingBatch()))


def test_causal_gate_never_looks_ahead(bank: AdapterBank) -> None:
    gate = GateRouter(H, D, temperature=1.0, causal=True)
    nn.init.normal_(gate.weight)
    x = torch.randn(5, 4, H)
    changed = x.clone()
    changed[3:] += 1
    before, after = (mixed(gate, v, bank, RoutingBatch()) for v in (x, changed))
    assert torch.equal(before[:3], after[:3])
    assert not torch.equal(before[3:], after[3:])


def with_a_guarded_row(bank: AdapterBank, causal: bool, row: int = 1) -> tuple[GateRouter, GateRouter, AdapterBank]:
    """A gate with one adapter more, guarded; and the gate and bank before it came."""
    settled = [other for other in range(D) if other != row]
    before, fewer = GateRouter(H, D - 1, 0.5, causal), AdapterBank(H, 4, D - 1)
    after = GateRouter(H, D, 0.5, causal)
    nn.init.normal_(after.weight)
    after.guarded = (row,)
    with torch.no_grad():
        before.weight.copy_(after.weight[settled])
        for kind in bank.row_names:
            getattr(fewer, kind).copy_(getattr(bank, kind)[settled])
    return after, before, fewer


@pytest.mark.parametrize("causal", [False, True])
def test_a_guarded_adapter_that_never_wins_changes_no_bit(bank: AdapterBank, causal: bool) -> None:
    after, before, fewer = with_a_guarded_row(bank, causal)
    with torch.no_grad():
        after.weight[1] = after.weight[0] - 10 * torch.eye(H)[0]  # below the first where feature 0 is positive
    x = torch.randn(7, 5, H)
    x[..., 0] = x[..., 0].abs() + 0.1
    assert torch.equal(mixed(after, x, bank, RoutingBatch()), mixed(before, x, fewer, RoutingBatch()))


def test_a_guarded_adapter_takes_part_just_where_its_logit_is_the_highest(bank: AdapterBank) -> None:
    after, before, fewer = with_a_guarded_row(bank, causal=True)
    x, batch = torch.randn(7, 5, H), RoutingBatch()
    out, old = mixed(after, x, bank, batch), mixed(before, x, fewer, RoutingBatch())
    logits = batch.gate_logits[0]
    wins = logits.argmax(-1).eq(1)
    assert 0 < int(wins.sum()) < wins.numel()
    assert torch.equal(out[~wins], old[~wins])
    torch.testing.assert_close(out[wins], bank(x, (logits / 0.5).softmax(-1))[wins])
    weights = after.weights(logits)
    torch.testing.assert_close(weights.sum(-1), torch.ones(7, 5))
    assert torch.equal(weights[..., 1] > 0, wins)


def test_forced_rows_pass_by_the_guard(bank: AdapterBank) -> None:
    after, _, _ = with_a_guarded_row(bank, causal=True)
    x, given = torch.randn(7, 3, H), torch.tensor([[0.0, 1.0, 0.0], [0.0, 0.0, 0.0], [0.0, 0.0, 1.0]])
    batch = RoutingBatch(given_weights=given, is_forced=torch.tensor([True, True, False]))
    out = mixed(after, x, bank, batch)
    torch.testing.assert_close(out[:, [0]], bank(x[:, [0]], torch.ones(1), active=[1]))
    torch.testing.assert_close(out[:, 1], x[:, 1])
    torch.testing.assert_close(out[:, 2], mixed(after, x, bank, RoutingBatch())[:, 2])


def sparse_gate(causal: bool = True, top_k: int = 0) -> GateRouter:
    torch.manual_seed(2)
    gate = GateRouter(H, D, 0.5, causal, top_k)
    nn.init.normal_(gate.weight)
    return gate


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("top_k", [1, 2])
def test_a_sparse_gate_is_a_dense_one_with_its_small_weights_at_zero(
    bank: AdapterBank, causal: bool, top_k: int
) -> None:
    gate, x, batch = sparse_gate(causal, top_k), torch.randn(5, 4, H), RoutingBatch()
    out = mixed(gate, x, bank, batch)
    logits = batch.gate_logits[0]
    assert logits.size(-1) == D  # criterions see them all
    weights = (logits / 0.5).softmax(-1)
    kept = weights.ge(weights.topk(top_k, -1).values[..., -1:])
    expected = (weights * kept) / (weights * kept).sum(-1, keepdim=True)
    torch.testing.assert_close(gate.weights(logits), expected)
    torch.testing.assert_close(out, bank(x, expected))
    assert not kept.all()


@pytest.mark.parametrize("top_k", [1, 2])
def test_a_sparse_gate_decodes_as_it_scores(bank: AdapterBank, top_k: int) -> None:
    gate, x, state = sparse_gate(top_k=top_k), torch.randn(6, 4, H), {}
    steps = [mixed(gate, x[t : t + 1], bank, RoutingBatch(incremental_state=state)) for t in range(6)]
    torch.testing.assert_close(torch.cat(steps), mixed(gate, x, bank, RoutingBatch()))


@pytest.mark.parametrize("causal", [False, True])
def test_a_guarded_adapter_of_a_sparse_gate_changes_nothing_where_it_does_not_win(
    bank: AdapterBank, causal: bool
) -> None:
    after, before, fewer = with_a_guarded_row(bank, causal)
    after.top_k = before.top_k = 1
    x, batch = torch.randn(7, 5, H), RoutingBatch()
    out, old = mixed(after, x, bank, batch), mixed(before, x, fewer, RoutingBatch())
    wins = batch.gate_logits[0].argmax(-1).eq(1).expand(7, 5)
    assert 0 < int(wins.sum()) < wins.numel()
    assert torch.equal(out[~wins], old[~wins])
    torch.testing.assert_close(out[wins], bank(x, torch.ones(1), active=[1])[wins])
