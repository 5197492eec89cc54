"""Ten ways to adapt a recurrent language model with general-domain word vectors, out of four choices."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from fairseq_ext.modules.gated_gru import GatedGRU
from fairseq_ext.modules.gru import GRU


@dataclass(frozen=True)
class Combination:
    """How in-domain and general-domain words and contexts come together.

    Attributes:
        words: what the GRU reads: ``own`` vectors, the ``general`` ones, both by ``concatenation`` or ``sum``, or
            through a ``gate``.
        contexts: what the output layer reads: the ``own`` context, or both by ``concatenation`` or ``sum``.
        weights_contexts: whether the general context is multiplied by a learned vector before.
        gates_contexts: whether each step begins from both contexts, through a gate.
    """

    words: str = "own"
    contexts: str = "own"
    weights_contexts: bool = False
    gates_contexts: bool = False

    @property
    def has_gates(self) -> bool:
        """Whether there is any gate."""
        return self.words == "gate" or self.gates_contexts

    @property
    def has_general_contexts(self) -> bool:
        """Whether there is a second GRU, of the general domain."""
        return self.has_gates or self.contexts != "own"

    @property
    def has_general_words(self) -> bool:
        """Whether general-domain word vectors are read at all."""
        return self.has_general_contexts or self.words != "own"

    @property
    def has_one_width(self) -> bool:
        """Whether own and general word vectors must be equally wide."""
        return self.words in ("sum", "gate")


# The names of Zhang et al. (2016), §3.1 to 3.3, in the order of their Table 2. `fixed` is their baseline word2vec.
COMBINATIONS = {
    "none": Combination(),
    "fixed": Combination(words="general"),
    "wvc": Combination(words="concatenation"),
    "wvs": Combination(words="sum"),
    "cvc": Combination(contexts="concatenation"),
    "wcvc": Combination(contexts="concatenation", weights_contexts=True),
    "cvs": Combination(contexts="sum"),
    "wcvs": Combination(contexts="sum", weights_contexts=True),
    "wvg": Combination(words="gate"),
    "cvg": Combination(gates_contexts=True),
    "dagru": Combination(words="gate", gates_contexts=True),
}


class DomainAdaptedGRU(nn.Module):
    """From words of two domains to the contexts that words are predicted from (Zhang et al., 2016, §3).

    Args:
        combination: of the domains.
        embed_dim: E, width of the in-domain word vectors.
        vector_dim: E*, width of the general-domain word vectors.
        hidden_dim: H, units of either GRU.

    Shape:
        words: T×B×E; general_words: T×B×E*; initial: 2×B×H, h and h* before the first step; result: T×B×C, where C is
        ``output_dim``, and 2×B×H, the states after the last step. Where the combination has no use for a vector, its
        width is 0 or its state stays as it was.

    Raises:
        ValueError: if words of different widths are to be added or gated.
    """

    def __init__(self, combination: Combination, embed_dim: int, vector_dim: int, hidden_dim: int):
        super().__init__()
        if combination.has_one_width and embed_dim != vector_dim:
            raise ValueError(f"this combination needs words of one width, not {embed_dim} and {vector_dim}")
        self.combination = combination
        self.gru: GRU | GatedGRU
        if combination.has_gates:
            self.gru = GatedGRU(
                embed_dim, vector_dim, hidden_dim, combination.words == "gate", combination.gates_contexts
            )
        else:
            self.gru = GRU(self._input_dim(embed_dim, vector_dim), hidden_dim)
        self.general_gru = GRU(vector_dim, hidden_dim) if combination.has_general_contexts else None
        self.context_weight = nn.Parameter(torch.ones(hidden_dim)) if combination.weights_contexts else None
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
            # h* never depends on h, so it is found for all steps first.
            general_states = self.general_gru(general_words, general)
            before = torch.cat([general.unsqueeze(0), general_states[:-1]])
            general = general_states[-1]
        if isinstance(self.gru, GatedGRU):
            states = self.gru(words, general_words, before, own)
        else:
            states = self.gru(self._inputs(words, general_words), own)
        return self._contexts(states, general_states), torch.stack([states[-1], general])

    def _inputs(self, words: Tensor, general_words: Tensor) -> Tensor:
        """What a GRU without gates reads (Eq. 7, 8)."""
        how = self.combination.words
        if how == "concatenation":
            return torch.cat([general_words, words], -1)
        if how == "sum":
            return general_words + words
        return general_words if how == "general" else words

    def _contexts(self, states: Tensor, general_states: Tensor | None) -> Tensor:
        """What the output layer reads (Eq. 9 to 12)."""
        if self.combination.contexts == "own":
            return states
        assert general_states is not None
        if self.context_weight is not None:
            general_states = self.context_weight * general_states
        if self.combination.contexts == "sum":
            return general_states + states
        return torch.cat([general_states, states], -1)
