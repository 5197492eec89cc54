"""What a filter is: of every pair it says why it is dropped, or nothing."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
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
    def reasons(self, batch: Batch) -> Iterable[str | None]:
        """Yield for every pair, in a few words, why it is dropped; None where it is kept."""

    def check(self, langs: tuple[str, str]) -> None:  # noqa: B027
        """Raise InputError if the filter cannot judge these languages."""


def by_side(batch: Batch, reason: Callable[[str, str], str | None]) -> Iterator[str | None]:
    """The reasons of a filter that looks at a text and the name of its side, the source first."""
    return (reason(source, "source") or reason(target, "target") for source, target in batch.pairs)


def run_filters(filters: Mapping[str, Filter], batch: Batch) -> tuple[list[int], dict[int, tuple[str, str]]]:
    """Run filters one after the other, each on the pairs that the ones before it accepted.

    Returns the rows of the accepted pairs; of the others, by row, the name of the filter and its reason.
    """
    pairs = batch.pairs
    rows, rejected = list(range(len(pairs))), {}
    for name, each in filters.items():
        accepted = []
        for row, reason in zip(rows, each.reasons(batch), strict=True):
            if reason is None:
                accepted.append(row)
            else:
                rejected[row] = (name, reason)
        if len(accepted) < len(rows):
            rows, batch = accepted, replace(batch, pairs=[pairs[row] for row in accepted])
    return rows, rejected
