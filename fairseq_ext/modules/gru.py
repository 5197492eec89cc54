"""A gated recurrent unit whose reset gate acts before the matrix product, alone and with gates between two domains."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from fairseq_ext.modules.autocast import autocast_dtype
from fairseq_ext.modules.recurrent_steps import GatedContexts, GatedWords, all_steps


class GRU(nn.Module):
    """One layer of gated recurrent units (Zhang et al., 2016, Eq. 4).

    ::

        u = σ(W_u x + U_u h + b_u)
        r = σ(W_r x + U_r h + b_r)
        h̃ = tanh(W x + U (r ⊙ h) + b)
        h' = (1 − u) ⊙ h + u ⊙ h̃

    ``torch.nn.GRU`` resets after the product, ``r ⊙ (U h)``, and its update gate keeps where this one replaces.

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
        """U_u with U_r, 2H×H, and U, H×H, in the type of products with such inputs."""
        dtype = autocast_dtype(inputs)
        return self.gates.weight.to(dtype), self.candidate.weight.to(dtype)


class DomainGate(nn.Module):
    """How much of each unit is to be in-domain (Zhang et al., 2016, Eq. 13 and 15).

    ``g = σ(W x + U h + W* x* + U* h* + b)``
    """

    def __init__(self, embed_dim: int, vector_dim: int, hidden_dim: int, gated_dim: int):
        super().__init__()
        self.given = nn.Linear(embed_dim + vector_dim + hidden_dim, gated_dim)  # W, W*, U*
        self.context = nn.Linear(hidden_dim, gated_dim, bias=False)  # U

    def forward(self, words: Tensor, general_words: Tensor, general_states: Tensor) -> tuple[Tensor, Tensor]:
        """What words and general contexts give to the gate at all steps, and the U that contexts are multiplied by.

        Shape:
            words: T×B×E; general_words: T×B×E*; general_states: T×B×H; result: T×B×G, G×H
        """
        given = self.given(torch.cat([words, general_words, general_states], -1))
        return given, self.context.weight.to(given.dtype)


class GatedGRU(nn.Module):
    """A GRU with a gate on its words, on its contexts, or on both (Zhang et al., 2016, §3.3: WVG, CVG, DAGRU).

    ::

        word gate:     x' = u ⊙ x + (1 − u) ⊙ x*                 (Eq. 14)
        context gate:  h' = r ⊙ h + (1 − r) ⊙ h*                 (Eq. 16)
        h_t = GRU(x' or x, h' or h)

    The general domain's contexts h* come from a GRU of their own. They do not depend on this one, so they are there for
    all steps when this one begins, and so is their share of the gates.

    Shape:
        words: T×B×E; general_words: T×B×E*; general_states: T×B×H, h* before each step; initial: B×H; result: T×B×H
    """

    def __init__(self, embed_dim: int, vector_dim: int, hidden_dim: int, gates_words: bool, gates_contexts: bool):
        super().__init__()
        self.gru = GRU(embed_dim, hidden_dim)
        widths = embed_dim, vector_dim, hidden_dim
        self.word_gate = DomainGate(*widths, embed_dim) if gates_words else None
        self.context_gate = DomainGate(*widths, hidden_dim) if gates_contexts else None

    def forward(self, words: Tensor, general_words: Tensor, general_states: Tensor, initial: Tensor) -> Tensor:
        given = words, general_words, general_states
        gated_words = gated_contexts = None
        if self.word_gate is None:
            inputs = self.gru.input(words)
        else:
            # What the GRU reads, and so what that gives, is found step by step.
            inputs = self.gru.input.bias.expand(*words.shape[:2], -1)
            values, weight = self.word_gate(*given)
            gated_words = GatedWords(values, weight, words, general_words, self.gru.input.weight.to(weight.dtype))
        if self.context_gate is not None:
            values, weight = self.context_gate(*given)
            gated_contexts = GatedContexts(values, weight, general_states)
        return all_steps(inputs, initial, self.gru.recurrent_weights(words), gated_words, gated_contexts)
