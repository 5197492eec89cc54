"""What a filter is: a score for every pair, and a limit that decides which scores are accepted."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from fairseq_ext.corpora.text_files import Pair
from fairseq_ext.inputs.errors import InputError
from fairseq_ext.inputs.models import Section

SIDES = ("source", "target")
_T = TypeVar("_T")


@dataclass(frozen=True)
class Learned:
    """The folder that :mod:`fairseq_ext.cleaning.learn` has written; each file is read when it is first asked for."""

    folder: Path | None = None
    _contents: dict[str, Any] = field(default_factory=dict)

    def load(self, name: str, read: Callable[[Path], _T]) -> _T:
        """What a file holds."""
        if self.folder is None:
            raise InputError("clean: filters: completeness, dictionary: nothing was learned from the corpora")
        if name not in self._contents:
            self._contents[name] = read(self.folder / name)
        return self._contents[name]  # type: ignore[no-any-return]


@dataclass(frozen=True)
class Batch:
    """Some thousand pairs, white space collapsed, and what was learned from the corpora, for filters that need it."""

    pairs: Sequence[Pair]
    langs: tuple[str, str]
    learned: Learned = field(default_factory=Learned)


class Filter(Section, ABC):
    """A section of an experiment file: its fields are the options of the filter."""

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
        """Raise InputError if the filter cannot judge these languages."""


def run_filters(filters: Mapping[str, Filter], batch: Batch) -> tuple[list[int], dict[int, tuple[str, str]]]:
    """Run filters one after the other, each on the pairs that the ones before it accepted.

    Returns the rows of the accepted pairs; of the others, by row, the name of the filter and its reason.
    """
    rows, rejected = list(range(len(batch.pairs))), {}
    for name, criterion in filters.items():
        accepted = []
        # Scores are many small objects: they are not kept.
        for row, score in zip(rows, criterion.scores(batch), strict=True):
            if criterion.accept(score):
                accepted.append(row)
            else:
                rejected[row] = (name, criterion.describe(score))
        if len(accepted) < len(rows):
            kept = set(accepted)
            pairs = [pair for row, pair in zip(rows, batch.pairs, strict=True) if row in kept]
            rows, batch = accepted, Batch(pairs, batch.langs, batch.learned)
    return rows, rejected
