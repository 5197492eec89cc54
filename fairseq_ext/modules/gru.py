"""A gated recurrent unit whose reset gate acts before the matrix product."""

from __future__ import annotations

import torch
from torch import Tensor, nn


class GRU(nn.Module):
    """One layer of gated recurrent units (Zhang et al., 2016, Eq. 4).

    ::

        u = σ(W_u x + U_u h + b_u)
        r = σ(W_r x + U_r h + b_r)
        h̃ = tanh(W x + U (r ⊙ h) + b)
        h' = (1 − u) ⊙ h + u ⊙ h̃

    ``torch.nn.GRU`` resets after the product, ``r ⊙ (U h)``, and its update gate keeps where this one replaces.

    Args:
        input_dim: E, width of the inputs.
        hidden_dim: H, number of units.

    Shape:
        inputs: T×B×E; initial: B×H; result: T×B×H, the states after each step
    """

    def __init__(self, input_dim: int, hidden_dim: int):
        super().__init__()
        self.input = nn.Linear(input_dim, 3 * hidden_dim)  # W_u, W_r, W
        self.gates = nn.Linear(hidden_dim, 2 * hidden_dim, bias=False)  # U_u, U_r
        self.candidate = nn.Linear(hidden_dim, hidden_dim, bias=False)  # U

    def forward(self, inputs: Tensor, initial: Tensor) -> Tensor:
        # What the inputs give does not depend on the states, so one product gives it for all steps.
        state, states = initial, []
        for projected in self.input(inputs):
            state = self.step(projected, state)
            states.append(state)
        return torch.stack(states)

    def step(self, projected: Tensor, state: Tensor) -> Tensor:
        """The next state.

        Shape:
            projected: B×3H, what ``self.input`` makes of the inputs; state, result: B×H
        """
        hidden_dim = state.size(-1)
        gates, candidate = projected.split([2 * hidden_dim, hidden_dim], -1)
        update, reset = torch.sigmoid(gates + self.gates(state)).chunk(2, -1)
        candidate = torch.tanh(candidate + self.candidate(reset * state))
        return torch.lerp(state, candidate, update)
