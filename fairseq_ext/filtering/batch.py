"""The unit that filters work on: some thousand pairs, and what several filters want to know of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from fairseq_ext.corpora.text_files import Pair

# What a filter says of each pair: None keeps it, a few words say why not.
Reasons = list[str | None]


@dataclass
class Batch:
    """N pairs in the corpus's order.

    Args:
        pairs: N sentences and their translations, white space collapsed.
        langs: source and target language.
    """

    pairs: Sequence[Pair]
    langs: tuple[str, str]

    def __len__(self) -> int:
        return len(self.pairs)

    @cached_property
    def num_words(self) -> np.ndarray:
        """Words a side. Shape: N×2."""
        # Words are separated by single spaces here, and counting spaces is faster than splitting.
        counts = [(one.count(" ") + bool(one), other.count(" ") + bool(other)) for one, other in self.pairs]
        return np.array(counts, dtype=np.int64).reshape(-1, 2)

    def take(self, kept: np.ndarray) -> Batch:
        """The pairs at the positions ``kept``, with their word counts if these are known."""
        batch = Batch([self.pairs[index] for index in kept.tolist()], self.langs)
        if "num_words" in self.__dict__:
            batch.num_words = self.num_words[kept]
        return batch
