"""A gated recurrent unit whose reset gate acts before the matrix product."""

from __future__ import annotations

from torch import Tensor, nn

from fairseq_ext.modules.autocast import autocast_dtype
from fairseq_ext.modules.recurrent_steps import all_steps


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
        return all_steps(self.input(inputs), initial, self.recurrent_weights(inputs))

    def recurrent_weights(self, inputs: Tensor) -> tuple[Tensor, Tensor]:
        """U_u with U_r, and U, in the type of products with such inputs.

        Shape:
            result: 2H×H, H×H
        """
        dtype = autocast_dtype(inputs)
        return self.gates.weight.to(dtype), self.candidate.weight.to(dtype)
