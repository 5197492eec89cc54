"""What a filter is: a score for every pair, and a limit that decides which scores are accepted."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fairseq_ext.corpora.text_files import Pair
from fairseq_ext.filtering.learned import Learned

SIDES = ("source", "target")
NOTHING_LEARNED = Learned()


@dataclass(frozen=True)
class Batch:
    """Some thousand pairs, in the order of the corpus.

    Attributes:
        pairs: sentences and their translations, white space collapsed.
        langs: source and target language.
        learned: what was learned from the corpora, for the filters that need it.
    """

    pairs: Sequence[Pair]
    langs: tuple[str, str]
    learned: Learned = NOTHING_LEARNED


class Filter(ABC):
    """A frozen dataclass whose attributes are its options in an experiment file."""

    @abstractmethod
    def scores(self, batch: Batch) -> Iterable[Any]:
        """Yield the score of every pair."""

    @abstractmethod
    def accept(self, score: Any) -> bool:
        """Whether a pair with this score is kept."""

    @abstractmethod
    def describe(self, score: Any) -> str:
        """Say in a few words why a score is not accepted."""

    def check(self, langs: tuple[str, str]) -> None:  # noqa: B027
        """Raise InputError if the filter cannot judge these languages or lacks a package."""


def run_filters(filters: Mapping[str, Filter], batch: Batch) -> tuple[list[int], dict[int, tuple[str, str]]]:
    """Run filters one after the other, each on the pairs that the ones before it accepted.

    Returns:
        positions of the accepted pairs; of the others, by position, the name of the filter and its reason.
    """
    rows, rejected = list(range(len(batch.pairs))), {}
    for name, criterion in filters.items():
        accepted = []
        current = Batch([batch.pairs[row] for row in rows], batch.langs, batch.learned)
        for row, score in zip(rows, criterion.scores(current), strict=True):
            if criterion.accept(score):
                accepted.append(row)
            else:
                rejected[row] = (name, criterion.describe(score))
        rows = accepted
    return rows, rejected
