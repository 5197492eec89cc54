"""Ten ways to adapt a recurrent language model with general-domain word vectors.

Configs that name them are checked without torch, so this module does not import it.
"""

from __future__ import annotations

from dataclasses import dataclass

ARCHITECTURE = "dagru_lm"  # prefix of the names of all its presets
DEFAULT_COMBINATION = "dagru"
# Substitute for a missing vector: zero (default), or the mean of the vectors found.
MISSING_CHOICES = ("zero", "mean")


@dataclass(frozen=True)
class Combination:
    """How in-domain and general-domain words and contexts are combined.

    Attributes:
        words: input of the GRU: ``own`` word vectors, the ``general`` ones, or both by ``concatenation``, ``sum`` or
            a ``gate``.
        contexts: input of the output layer: the ``own`` context, or both by ``concatenation`` or ``sum``.
        weights_contexts: whether the general context is first multiplied by a learned vector.
        gates_contexts: whether each step starts from a gated mixture of both contexts.
    """

    words: str = "own"
    contexts: str = "own"
    weights_contexts: bool = False
    gates_contexts: bool = False

    @property
    def has_gates(self) -> bool:
        return self.words == "gate" or self.gates_contexts

    @property
    def has_general_contexts(self) -> bool:
        """Whether there is a second GRU for the general domain."""
        return self.has_gates or self.contexts != "own"

    @property
    def has_general_words(self) -> bool:
        """Whether general-domain word vectors are used."""
        return self.has_general_contexts or self.words != "own"

    @property
    def has_one_width(self) -> bool:
        """Whether own and general word vectors must have the same dimension."""
        return self.words in ("sum", "gate")


# Names from Zhang et al. (2016), §3.1 to 3.3, in the order of their Table 2. `fixed` is their word2vec baseline.
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
