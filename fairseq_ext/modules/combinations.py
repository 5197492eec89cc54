"""Ten ways to adapt a recurrent language model with general-domain word vectors, out of four choices.

Files name them that are read and checked without torch, so this imports nothing.
"""

from __future__ import annotations

from dataclasses import dataclass

ARCHITECTURE = "dagru_lm"  # with which the names of all its presets begin
DEFAULT_COMBINATION = "dagru"
# What takes the place of a vector that a file lacks, the default first: zero, or the mean of those found.
MISSING_CHOICES = ("zero", "mean")


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
