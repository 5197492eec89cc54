"""The GRU against its formula, written out, and against torch's where both are the same."""

import torch
from torch import Tensor

from fairseq_ext.modules.gru import GRU

T, B, E, H = 5, 3, 4, 6


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


def test_is_its_formula() -> None:
    torch.manual_seed(1)
    gru, inputs, initial = GRU(E, H), torch.randn(T, B, E), torch.randn(B, H)
    torch.testing.assert_close(gru(inputs, initial), by_hand(gru, inputs, initial), atol=1e-6, rtol=0)


def test_gradients() -> None:
    torch.manual_seed(1)
    gru = GRU(3, 2).double()
    inputs, initial = torch.randn(4, 2, 3).double().requires_grad_(), torch.randn(2, 2).double().requires_grad_()
    parameters = [*gru.parameters()]

    def run(*values: Tensor) -> Tensor:
        return torch.func.functional_call(gru, dict(zip(names, values[2:], strict=True)), values[:2])

    names = [name for name, _ in gru.named_parameters()]
    assert torch.autograd.gradcheck(run, (inputs, initial, *parameters))
