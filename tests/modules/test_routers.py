import pytest
import torch
from torch import nn

from fairseq_ext.modules.adapter_bank import AdapterBank
from fairseq_ext.modules.post_layer_adapter import PostLayerAdapter, routing
from fairseq_ext.modules.routers import GateRouter, GivenRouter, RoutingBatch
from tests.modules.banks import randomised

H, D = 8, 3


def mixed(router: nn.Module, x: torch.Tensor, bank: AdapterBank, batch: RoutingBatch) -> torch.Tensor:
    out: torch.Tensor = router(x, batch)(bank, x, x)
    return out


@pytest.fixture
def bank() -> AdapterBank:
    return randomised(AdapterBank(H, 4, D))


def make_gate(causal: bool = True, top_k: int = 0, has_base: bool = False) -> GateRouter:
    torch.manual_seed(2)
    gate = GateRouter(H, D, 0.5, causal, top_k, has_base=has_base)
    for weight in gate.parameters():
        nn.init.normal_(weight)
    return gate


def test_rows_use_their_given_weights(bank: AdapterBank) -> None:
    x = torch.randn(5, 4, H)
    weights = torch.tensor([[0.5, 0.5, 0.0], [0.0, 0.25, 0.75], [0.5, 0.5, 0.0], [0.0, 0.0, 0.0]])
    out = mixed(GivenRouter(), x, bank, RoutingBatch(given_weights=weights))
    torch.testing.assert_close(out, bank(x, weights))
    assert torch.equal(out[:, 3], x[:, 3])
    assert torch.equal(mixed(GivenRouter(), x, bank, RoutingBatch(given_weights=torch.zeros(4, D))), x)
    bank.down_weight.data[0] = float("nan")  # would spread to everything computed with it
    assert mixed(GivenRouter(), x, bank, RoutingBatch(given_weights=weights[1:2])).isfinite().all()


@pytest.mark.parametrize("has_base", [False, True])
@pytest.mark.parametrize("guarded", [(), (1,)])
def test_forced_rows_use_given_weights_instead_of_gates(
    bank: AdapterBank, guarded: tuple[int, ...], has_base: bool
) -> None:
    gate, x = make_gate(has_base=has_base), torch.randn(5, 3, H)
    gate.guarded = guarded
    given = torch.tensor([[0.0, 1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 0.0]])
    batch = RoutingBatch(given_weights=given, is_forced=torch.tensor([True, False, True]))
    out = mixed(gate, x, bank, batch)
    torch.testing.assert_close(out[:, [0]], bank(x[:, [0]], torch.ones(1), active=[1]))
    torch.testing.assert_close(out[:, [1]], mixed(gate, x[:, [1]], bank, RoutingBatch()))
    torch.testing.assert_close(out[:, 2], x[:, 2])
    assert torch.equal(mixed(gate, x, bank, RoutingBatch(given_weights=given)), mixed(gate, x, bank, RoutingBatch()))


def test_a_forced_row_uses_all_its_adapters_even_if_the_gate_keeps_fewer(bank: AdapterBank) -> None:
    gate, x = make_gate(top_k=1), torch.randn(5, 2, H)
    given = torch.tensor([[0.5, 0.2, 0.3], [0.0, 0.0, 1.0]])
    batch = RoutingBatch(given_weights=given, most_given=3, is_forced=torch.tensor([True, False]))
    out = mixed(gate, x, bank, batch)
    torch.testing.assert_close(out[:, [0]], bank(x[:, [0]], given[:1]))
    torch.testing.assert_close(out[:, [1]], mixed(gate, x[:, [1]], bank, RoutingBatch()))


@pytest.mark.parametrize(
    ("guarded", "logits", "used"),
    [
        ((1,), [2.0, 2.0, 1.0], [True, False, True]),  # a tie
        ((1,), [2.0, 2.5, 1.0], [True, True, True]),
        ((1, 2), [0.0, 1.0, 2.0], [True, False, True]),
        ((1, 2), [2.0, 1.0, 0.0], [True, False, False]),
    ],
)
def test_of_guarded_adapters_the_highest_is_used_if_it_beats_the_others(
    guarded: tuple[int, ...], logits: list[float], used: list[bool]
) -> None:
    gate = make_gate()
    gate.guarded = guarded
    assert gate.weights(torch.tensor(logits)).ne(0).tolist() == used


@pytest.mark.parametrize("has_base", [False, True])
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("top_k", [0, 1, 2])
def test_weights_are_the_softmax_of_the_projected_mean_its_largest_or_all(
    bank: AdapterBank, causal: bool, top_k: int, has_base: bool
) -> None:
    """The base takes part in the softmax and in the choice of the largest, and adds nothing."""
    gate, x, batch = make_gate(causal, top_k, has_base), torch.randn(5, 4, H), RoutingBatch()
    out = mixed(gate, x, bank, batch)
    mean = x.cumsum(0) / torch.arange(1, 6).view(-1, 1, 1) if causal else x.mean(0, keepdim=True)
    logits = mean @ torch.cat([*gate.parameters()]).t()
    torch.testing.assert_close(batch.gate_logits[0], logits)
    weights = (logits / 0.5).softmax(-1)
    kept = weights.ge(weights.topk(top_k or D + has_base, -1).values[..., -1:])
    expected = ((weights * kept) / (weights * kept).sum(-1, keepdim=True))[..., :D]
    if has_base:
        assert not torch.allclose(expected.sum(-1), torch.ones(()))
    torch.testing.assert_close(gate.weights(logits), expected)
    torch.testing.assert_close(out, bank(x, expected))


@pytest.mark.parametrize("has_base", [False, True])
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("top_k", [0, 1])
def test_a_guarded_adapter_takes_part_just_where_its_logit_is_the_highest(
    bank: AdapterBank, causal: bool, top_k: int, has_base: bool
) -> None:
    """Elsewhere not a bit changes from what gate and bank computed before it came; the base keeps its share."""
    before = GateRouter(H, D - 1, 0.5, causal, top_k, has_base=has_base)
    fewer = AdapterBank(H, 4, D - 1)
    after = make_gate(causal, top_k, has_base)
    after.guarded = (1,)
    with torch.no_grad():
        if has_base:
            before.base_weight.copy_(after.base_weight)
        before.weight.copy_(after.weight[[0, 2]])
        for kind in bank.row_names:
            getattr(fewer, kind).copy_(getattr(bank, kind)[[0, 2]])
    x, batch = torch.randn(7, 20, H), RoutingBatch()
    out, old = mixed(after, x, bank, batch), mixed(before, x, fewer, RoutingBatch())
    logits = batch.gate_logits[0]
    wins = logits.argmax(-1).eq(1).expand(7, 20)
    assert 0 < int(wins.sum()) < wins.numel()
    assert torch.equal(out[~wins], old[~wins])
    expected = torch.tensor([0.0, 1, 0]) if top_k else (logits / 0.5).softmax(-1)[..., :D]
    torch.testing.assert_close(out[wins], bank(x, expected.expand(7, 20, D))[wins])
    # One that never wins: nothing of it is computed.
    with torch.no_grad():
        after.weight[1] = after.weight[0] - 10 * torch.eye(H)[0]  # below the first where feature 0 is positive
    x[..., 0] = x[..., 0].abs() + 0.1
    assert torch.equal(mixed(after, x, bank, RoutingBatch()), mixed(before, x, fewer, RoutingBatch()))


def test_known_logits_count_the_same_in_cached_decoding() -> None:
    gate, x, known = make_gate(), torch.randn(4, 2, H), torch.randn(1, 2, D)
    bank, state = randomised(AdapterBank(H, 4, D)), {}
    at_once = mixed(gate, x, bank, RoutingBatch(known_logits=known))
    steps = [mixed(gate, x[[t]], bank, RoutingBatch(known_logits=known, incremental_state=state)) for t in range(4)]
    torch.testing.assert_close(torch.cat(steps), at_once)


def test_dropout_is_of_what_adapters_add(bank: AdapterBank) -> None:
    adapter, x = PostLayerAdapter(bank, GivenRouter(), dropout=0.5), torch.randn(5, 4, H)
    with routing(RoutingBatch(given_weights=torch.tensor([[0.0, 1.0, 0.0]]))):
        added = adapter.eval()(x) - x
        dropped = adapter.train()(x) - x
    is_kept = dropped.abs() > 1e-6
    assert 0 < int(is_kept.sum()) < is_kept.numel()
    torch.testing.assert_close(dropped[is_kept], 2 * added[is_kept], atol=1e-5, rtol=1e-5)
