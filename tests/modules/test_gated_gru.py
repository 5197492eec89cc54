"""The gates against their formulas, and at their limits."""

import pytest
import torch
from torch import Tensor

from fairseq_ext.modules.gru import DomainGate, GatedGRU
from tests.modules.test_gru import by_hand

T, B, E, H = 5, 3, 4, 6
GATES = [(True, False), (False, True), (True, True)]


def made(gates_words: bool, gates_contexts: bool, width: int = E) -> tuple[GatedGRU, tuple[Tensor, ...]]:
    """The module, and what it reads: x, x*, h* before each step, h before the first."""
    torch.manual_seed(1)
    gru = GatedGRU(E, width, H, gates_words, gates_contexts)
    return gru, (torch.randn(T, B, E), torch.randn(T, B, width), torch.randn(T, B, H), torch.randn(B, H))


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


@pytest.mark.parametrize(("gates_words", "gates_contexts"), GATES)
def test_is_its_formula(gates_words: bool, gates_contexts: bool) -> None:
    gru, inputs = made(gates_words, gates_contexts)
    torch.testing.assert_close(gru(*inputs), by_formula(gru, *inputs), atol=1e-6, rtol=0)


@pytest.mark.parametrize(("gates_words", "gates_contexts"), GATES)
def test_gradients_are_the_formula_s(gates_words: bool, gates_contexts: bool) -> None:
    gru, inputs = made(gates_words, gates_contexts)
    leaves = [*(each.requires_grad_() for each in inputs), *gru.parameters()]
    upstream = torch.randn(T, B, H)
    written, automatic = (
        torch.autograd.grad((states * upstream).sum(), leaves) for states in (gru(*inputs), by_formula(gru, *inputs))
    )
    torch.testing.assert_close(written, automatic, atol=5e-6, rtol=1e-5)
