"""Recurrent language model with general-domain word vectors, in any of ten combinations."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from fairseq_ext.modules.combinations import Combination
from fairseq_ext.modules.gru import GRU, GatedGRU


class DomainAdaptedGRU(nn.Module):
    """GRUs from word vectors of two domains to the contexts that predict the next words (Zhang et al., 2016, §3).

    Shape:
        words: T×B×E; general_words: T×B×E*; initial: 2×B×H, h and h* before the first step; result: T×B×C, where C is
        ``output_dim``, and 2×B×H, the states after the last step. If the combination does not use a vector, its
        width is 0 or its state stays unchanged.
    """

    def __init__(self, combination: Combination, embed_dim: int, vector_dim: int, hidden_dim: int):
        super().__init__()
        self.combination = combination
        self.gru: GRU | GatedGRU
        if combination.has_gates:
            self.gru = GatedGRU(
                embed_dim, vector_dim, hidden_dim, combination.words == "gate", combination.gates_contexts
            )
        else:
            self.gru = GRU(self._input_dim(embed_dim, vector_dim), hidden_dim)
        self.general_gru = GRU(vector_dim, hidden_dim) if combination.has_general_contexts else None
        self.context_weight = (
            nn.Parameter(torch.empty(hidden_dim).uniform_(-0.1, 0.1)) if combination.weights_contexts else None
        )
        self.hidden_dim = hidden_dim
        self.output_dim = 2 * hidden_dim if combination.contexts == "concatenation" else hidden_dim

    def _input_dim(self, embed_dim: int, vector_dim: int) -> int:
        if self.combination.words == "concatenation":
            return vector_dim + embed_dim
        return vector_dim if self.combination.words == "general" else embed_dim

    def forward(self, words: Tensor, general_words: Tensor, initial: Tensor) -> tuple[Tensor, Tensor]:
        own, general = initial
        general_states = None
        if self.general_gru is not None:
            # h* does not depend on h, so all its steps can be computed first.
            general_states = self.general_gru(general_words, general)
            before = torch.cat([general.unsqueeze(0), general_states[:-1]])
            general = general_states[-1]
        if isinstance(self.gru, GatedGRU):
            states = self.gru(words, general_words, before, own)
        else:
            states = self.gru(self._inputs(words, general_words), own)
        return self._contexts(states, general_states), torch.stack([states[-1], general])

    def _inputs(self, words: Tensor, general_words: Tensor) -> Tensor:
        """Return the input of a GRU without gates (Eq. 7, 8)."""
        how = self.combination.words
        if how == "concatenation":
            return torch.cat([general_words, words], -1)
        if how == "sum":
            return general_words + words
        return general_words if how == "general" else words

    def _contexts(self, states: Tensor, general_states: Tensor | None) -> Tensor:
        """Return the input of the output layer (Eq. 9 to 12)."""
        if self.combination.contexts == "own":
            return states
        assert general_states is not None
        if self.context_weight is not None:
            general_states = self.context_weight * general_states
        if self.combination.contexts == "sum":
            return general_states + states
        return torch.cat([general_states, states], -1)
