"""Shortlists: the target tokens that the translations of a batch may need, by the lexicons of an exported system."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np

from fairseq_ext.serve.runtime.vocabulary import REMEDY, Vocabulary
from fairseq_ext.text.lexicons import BASE, SHORTLIST_FILE, copies_of, read_lexicons

SYSTEM, NONE = "system", "none"  # values of --shortlist


class Shortlist:
    """Chooses the tokens of the output layer for a batch, see :meth:`tokens`."""

    def __init__(self, path: Path, vocabulary: Vocabulary) -> None:
        sizes = len(vocabulary.source), len(vocabulary.target)
        self._lexicons = read_lexicons(path, sizes, REMEDY)
        self._copies = copies_of(vocabulary.source, vocabulary.target)
        self._size = len(vocabulary.target)
        self._special = np.array([vocabulary.first, vocabulary.last, vocabulary.unk, vocabulary.pad])

    def tokens(self, sources: Sequence[np.ndarray], domains: Iterable[str], needed: Iterable[int]) -> np.ndarray | None:
        """Return the tokens that translations may need, ascending; None for all, if a domain has no lexicon.

        Args:
            sources: source tokens of each sentence.
            domains: domains whose adapters are used.
            needed: tokens of prefixes, terms and placeholders.
        """
        names = [BASE, *domains]
        if any(name not in self._lexicons for name in names):
            return None
        pieces = np.unique(np.concatenate(sources))
        is_chosen = np.zeros(self._size, bool)
        is_chosen[self._special] = True
        is_chosen[[*needed]] = True
        copies = self._copies[pieces]
        is_chosen[copies[copies >= 0]] = True
        for name in names:
            is_chosen[self._lexicons[name].targets_of(pieces)] = True
        return np.flatnonzero(is_chosen)


def read_shortlist(directory: Path, vocabulary: Vocabulary) -> Shortlist | None:
    """Read the lexicons of an exported system; None if it has none."""
    path = directory / SHORTLIST_FILE
    return Shortlist(path, vocabulary) if path.is_file() else None
