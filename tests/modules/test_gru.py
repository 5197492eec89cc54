"""The GRU, its gates, and the combinations without any, against their formulas, written out."""

import pytest
import torch
from torch import Tensor

from fairseq_ext.modules.combinations import COMBINATIONS
from fairseq_ext.modules.gru import GRU, DomainAdaptedGRU, DomainGate, GatedGRU

T, B, E, H = 5, 3, 4, 6
UNGATED = [name for name, combination in COMBINATIONS.items() if not combination.has_gates]


def by_hand(gru: GRU, inputs: Tensor, state: Tensor) -> Tensor:
    """Eq. 4, a matrix at a time."""
    w_u, w_r, w = gru.input.weight.chunk(3)
    b_u, b_r, b = gru.input.bias.chunk(3)
    u_u, u_r = gru.gates.weight.chunk(2)
    u = gru.candidate.weight
    states = []
    for x in inputs:
        update = 1 / (1 + torch.exp(-(x @ w_u.T + state @ u_u.T + b_u)))
        reset = 1 / (1 + torch.exp(-(x @ w_r.T + state @ u_r.T + b_r)))
        candidate = torch.tanh(x @ w.T + (reset * state) @ u.T + b)
        state = (1 - update) * state + update * candidate
        states.append(state)
    return torch.stack(states)


def gate_by_hand(gate: DomainGate, x: Tensor, general_x: Tensor, general_h: Tensor, h: Tensor) -> Tensor:
    """Eq. 13 and 15."""
    w, general_w, general_u = gate.given.weight.split([x.size(-1), general_x.size(-1), h.size(-1)], 1)
    total = x @ w.T + h @ gate.context.weight.T + general_x @ general_w.T + general_h @ general_u.T + gate.given.bias
    return 1 / (1 + torch.exp(-total))


def by_formula(gru: GatedGRU, words: Tensor, general_words: Tensor, general_states: Tensor, state: Tensor) -> Tensor:
    """Eq. 14 and 16, step by step."""
    states = []
    for x, general_x, general_h in zip(words, general_words, general_states, strict=True):
        given = x, general_x, general_h, state
        if gru.word_gate is not None:
            gate = gate_by_hand(gru.word_gate, *given)
            x = gate * x + (1 - gate) * general_x
        if gru.context_gate is not None:
            gate = gate_by_hand(gru.context_gate, *given)
            state = gate * state + (1 - gate) * general_h
        state = by_hand(gru.gru, x.unsqueeze(0), state)[0]
        states.append(state)
    return torch.stack(states)


@pytest.mark.parametrize("gates_contexts", [False, True])
@pytest.mark.parametrize("gates_words", [False, True])
def test_states_and_gradients_are_those_of_the_formula(gates_words: bool, gates_contexts: bool) -> None:
    torch.manual_seed(1)
    gru = GatedGRU(E, E, H, gates_words, gates_contexts)
    inputs = torch.randn(T, B, E), torch.randn(T, B, E), torch.randn(T, B, H), torch.randn(B, H)
    leaves, upstream = [*(each.requires_grad_() for each in inputs), *gru.parameters()], torch.randn(T, B, H)
    written, automatic = (
        [states, *torch.autograd.grad((states * upstream).sum(), leaves, allow_unused=True, materialize_grads=True)]
        for states in (gru(*inputs), by_formula(gru, *inputs))
    )
    torch.testing.assert_close(written, automatic, atol=5e-6, rtol=1e-5)


@pytest.mark.parametrize("name", UNGATED)
def test_combinations_without_gates_are_their_formula(name: str) -> None:
    """Eq. 7 to 12."""
    torch.manual_seed(1)
    gru = DomainAdaptedGRU(COMBINATIONS[name], E, E, H)
    weight = torch.ones(()) if gru.context_weight is None else torch.nn.init.normal_(gru.context_weight)
    x, general_x, initial = torch.randn(T, B, E), torch.randn(T, B, E), torch.randn(2, B, H)
    contexts, _ = gru(x, general_x, initial)
    inputs = {"wvc": torch.cat([general_x, x], -1), "wvs": general_x + x, "fixed": general_x}.get(name, x)
    expected = by_hand(gru.gru, inputs, initial[0])
    if gru.general_gru is not None:
        general = weight * by_hand(gru.general_gru, general_x, initial[1])
        expected = torch.cat([general, expected], -1) if name in ("cvc", "wcvc") else general + expected
    torch.testing.assert_close(contexts, expected, atol=1e-6, rtol=0)
    assert contexts.shape == (T, B, gru.output_dim)
