"""A GRU that takes words and contexts from two domains, through gates."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from fairseq_ext.modules.gru import GRU


class DomainGate(nn.Module):
    """How much of each unit is to be in-domain (Zhang et al., 2016, Eq. 13 and 15).

    ``g = σ(W x + U h + W* x* + U* h* + b)``

    Args:
        embed_dim: E, width of the in-domain word vectors x.
        vector_dim: E*, width of the general-domain word vectors x*.
        hidden_dim: H, width of the contexts h and h*.
        gated_dim: G, units of what is gated.
    """

    def __init__(self, embed_dim: int, vector_dim: int, hidden_dim: int, gated_dim: int):
        super().__init__()
        self.given = nn.Linear(embed_dim + vector_dim + hidden_dim, gated_dim)  # W, W*, U*
        self.context = nn.Linear(hidden_dim, gated_dim, bias=False)  # U

    def forward(self, own: Tensor, general: Tensor, projected: Tensor, state: Tensor) -> Tensor:
        """Mix one step: ``g ⊙ own + (1 − g) ⊙ general``.

        Shape:
            own, general, result: B×G; projected: B×G, what ``self.given`` makes of ``[x; x*; h*]``; state: B×H
        """
        return torch.lerp(general, own, torch.sigmoid(projected + self.context(state)))


class GatedGRU(nn.Module):
    """A GRU with a gate on its words, on its contexts, or on both (Zhang et al., 2016, §3.3: WVG, CVG, DAGRU).

    ::

        word gate:     x' = u ⊙ x + (1 − u) ⊙ x*                 (Eq. 14)
        context gate:  h' = r ⊙ h + (1 − r) ⊙ h*                 (Eq. 16)
        h_t = GRU(x' or x, h' or h)

    The general domain's contexts h* come from a GRU of their own. They do not depend on this one, so they are there for
    all steps when this one begins, and so is their share of the gates.

    Args:
        embed_dim: E, width of the in-domain word vectors; with a word gate also that of the general-domain ones.
        vector_dim: E*, width of the general-domain word vectors.
        hidden_dim: H.
        gates_words: whether there is a gate on the words.
        gates_contexts: whether there is a gate on the contexts.

    Shape:
        words: T×B×E; general_words: T×B×E*; general_states: T×B×H, h* before each step; initial: B×H; result: T×B×H

    Raises:
        ValueError: if words of different widths are to be gated.
    """

    def __init__(self, embed_dim: int, vector_dim: int, hidden_dim: int, gates_words: bool, gates_contexts: bool):
        super().__init__()
        if gates_words and embed_dim != vector_dim:
            raise ValueError(f"gated words need one width, not {embed_dim} and {vector_dim}")
        self.gru = GRU(embed_dim, hidden_dim)
        widths = embed_dim, vector_dim, hidden_dim
        self.word_gate = DomainGate(*widths, embed_dim) if gates_words else None
        self.context_gate = DomainGate(*widths, hidden_dim) if gates_contexts else None

    def forward(self, words: Tensor, general_words: Tensor, general_states: Tensor, initial: Tensor) -> Tensor:
        given = torch.cat([words, general_words, general_states], -1)
        of_words, of_contexts = (
            given if gate is None else gate.given(given) for gate in (self.word_gate, self.context_gate)
        )
        inputs = self.gru.input(words) if self.word_gate is None else words
        state, states = initial, []
        for t in range(len(words)):
            projected, before = inputs[t], state
            if self.word_gate is not None:
                projected = self.gru.input(self.word_gate(words[t], general_words[t], of_words[t], before))
            if self.context_gate is not None:
                state = self.context_gate(before, general_states[t], of_contexts[t], before)
            state = self.gru.step(projected, state)
            states.append(state)
        return torch.stack(states)
