"""Lexicons: for each source piece, the target pieces that a translation may need. They shorten the output layer.

A lexicon is counted in sentence pairs, or read from a Marian model. Pieces are numbers of the dictionaries.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from fairseq_ext.base.array_file import read_arrays
from fairseq_ext.base.errors import InputError

SHORTLIST_FILE = "shortlist.npz"
BASE = "base"  # name of the lexicon for all text; others have the names of domains
_PARTS = ("sources", "starts", "targets", "always")
_CHUNK = 2000  # sentence pairs that are counted together
_MOST_PAIRS = 50_000
_FREQUENT = 100  # most frequent target pieces, which every sentence has
_BEST = 20  # target pieces of a source piece, without a known lexicon
Pairs = Sequence[tuple[np.ndarray, np.ndarray]]


@dataclass(frozen=True)
class Lexicon:
    """Target pieces by source piece.

    Shape:
        sources: S, ascending; starts: S+1; targets: those of ``sources[i]`` are ``targets[starts[i]:starts[i + 1]]``;
        always: target pieces of every sentence
    """

    sources: np.ndarray
    starts: np.ndarray
    targets: np.ndarray
    always: np.ndarray

    @classmethod
    def of_links(cls, sources: np.ndarray, targets: np.ndarray, always: np.ndarray) -> Lexicon:
        """Return the lexicon with these pairs of a source and a target piece."""
        order = np.lexsort((targets, sources))
        pieces, counts = np.unique(sources, return_counts=True)
        starts = np.concatenate([[0], np.cumsum(counts)])
        return cls(*(each.astype(np.int32) for each in (pieces, starts, targets[order], always)))

    def links(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the source and the target piece of each pair."""
        return np.repeat(self.sources, np.diff(self.starts)), self.targets

    def targets_of(self, pieces: np.ndarray) -> np.ndarray:
        """Return the target pieces of source pieces, some of them repeatedly."""
        places = np.searchsorted(self.sources, pieces)
        places = places[places < len(self.sources)] if len(self.sources) else places[:0]
        places = places[np.isin(self.sources[places], pieces)]
        parts = [self.targets[self.starts[place] : self.starts[place + 1]] for place in places.tolist()]
        return np.concatenate([self.always, *parts])

    def check(self, sizes: tuple[int, int], where: str, remedy: str) -> None:
        """Check that all numbers are those of pieces; ``sizes`` are those of the dictionaries."""
        starts, own = self.starts, (self.sources, self.starts, self.targets, self.always)
        is_right = all(array.ndim == 1 and array.dtype.kind in "iu" for array in own)
        is_right = is_right and len(starts) == len(self.sources) + 1 and bool((np.diff(starts.astype(int)) >= 0).all())
        is_right = is_right and (starts[0], starts[-1]) == (0, len(self.targets))
        for array, size in ((self.sources, sizes[0]), (self.targets, sizes[1]), (self.always, sizes[1])):
            is_right = is_right and (not len(array) or (array.min() >= 0 and array.max() < size))
        if not is_right:
            raise InputError(f"{where}: does not fit the dictionaries; {remedy}")


def write_lexicons(path: Path, lexicons: Mapping[str, Lexicon]) -> None:
    """Write lexicons, by name, to a ``.npz`` file."""
    arrays = {f"{name}/{part}": getattr(own, part) for name, own in lexicons.items() for part in _PARTS}
    np.savez_compressed(path, names=np.array([*lexicons]), **arrays)  # type: ignore[arg-type]


def read_lexicons(path: Path, sizes: tuple[int, int], remedy: str) -> dict[str, Lexicon]:
    """Read and check lexicons; ``sizes`` are those of source and target dictionary."""
    names = read_arrays(path, ["names"], remedy)["names"]
    if names.ndim != 1 or names.dtype.kind != "U":
        raise InputError(f"{path}: names are not text; {remedy}")
    arrays = read_arrays(path, [f"{name}/{part}" for name in names for part in _PARTS], remedy)
    lexicons = {str(name): Lexicon(*(arrays[f"{name}/{part}"] for part in _PARTS)) for name in names}
    for name, lexicon in lexicons.items():
        lexicon.check(sizes, f"{path}: {name}", remedy)
    return lexicons


def count_lexicon(pairs: Pairs, copies: np.ndarray, known: Lexicon | None = None) -> Lexicon:
    """Return the lexicon that these pairs need: with it, and what is known, every piece of their targets is available.

    A piece that is not available otherwise is linked to one source piece of its sentence: that with the largest Dice
    coefficient (Dice 1945) over sentences. Without a known lexicon, every source piece also has the target pieces with
    the largest coefficients. Long corpora are counted in part.

    Args:
        pairs: source and target pieces of each pair.
        copies: for each source piece the equal target piece, or -1: the runtime adds them anyway.
        known: a lexicon that is used together with the result.
    """
    every = [target for _, target in pairs] + [copies, *([] if known is None else [known.targets])]
    size = 1 + max(int(targets.max()) for targets in every if len(targets))
    counts = _Counts.of(pairs[:: max(1, len(pairs) // _MOST_PAIRS)], len(copies), size)
    always = np.argsort(-counts.of_target, kind="stable")[:_FREQUENT]
    available = [_keys(np.flatnonzero(copies >= 0), copies[copies >= 0], size)]
    if known is None:
        available.append(counts.best())
    else:
        available.append(_keys(*known.links(), size))
        always = np.union1d(always, known.always)
    chosen = counts.missing(np.unique(np.concatenate(available)), always)
    chosen = chosen if known is not None else np.union1d(chosen, available[1])
    return Lexicon.of_links(chosen // size, chosen % size, always)


@dataclass(frozen=True)
class _Counts:
    """Numbers of sentence pairs with a source piece, with a target piece, and with both, whose keys are sorted."""

    pairs: Pairs
    of_source: np.ndarray
    of_target: np.ndarray
    keys: np.ndarray
    of_both: np.ndarray

    @classmethod
    def of(cls, pairs: Pairs, sources: int, size: int) -> _Counts:
        of_source, of_target = np.zeros(sources, np.int64), np.zeros(size, np.int64)
        for source, target in pairs:
            of_source[np.unique(source)] += 1
            of_target[np.unique(target)] += 1
        keys, counts = np.zeros(0, np.int64), np.zeros(0, np.int64)
        for _, source, target in _occurrences(pairs):
            own, number = np.unique(_keys(source, target, size), return_counts=True)
            keys, places = np.unique(np.concatenate([keys, own]), return_inverse=True)
            counts = np.bincount(places, weights=np.concatenate([counts, number])).astype(np.int64)
        return cls(pairs, of_source, of_target, keys, counts)

    def dice(self, keys: np.ndarray) -> np.ndarray:
        """Return half of the Dice coefficients of pairs of pieces."""
        source, target = np.divmod(keys, len(self.of_target))
        both: np.ndarray = self.of_both[np.searchsorted(self.keys, keys)]
        return both / (self.of_source[source] + self.of_target[target])

    def best(self) -> np.ndarray:
        """Return the keys of the best target pieces of each source piece, without pairs that occur once."""
        keys = self.keys[self.of_both > 1]
        source = keys // len(self.of_target)
        order = np.lexsort((-self.dice(keys), source))
        rank = np.arange(len(order)) - np.searchsorted(source, source)[order]
        return keys[order[rank < _BEST]]

    def missing(self, available: np.ndarray, always: np.ndarray) -> np.ndarray:
        """Return the keys of links for target pieces that are not available in their pair; ``available`` is sorted."""
        size = len(self.of_target)
        is_always = np.isin(np.arange(size), always)
        found = [np.zeros(0, np.int64)]
        for number, source, target in _occurrences(self.pairs):
            keys, group = _keys(source, target, size), number * size + target
            is_open = ~is_always[target] & ~np.isin(group, group[_are_in(keys, available)])
            keys, group = keys[is_open], group[is_open]
            order = np.lexsort((self.dice(keys), group))
            found.append(keys[order[np.flatnonzero(np.diff(group[order], append=-1))]])
        return np.unique(np.concatenate(found))


def _are_in(keys: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Return whether each key is among sorted values."""
    places = np.searchsorted(values, keys)
    is_inside = places < len(values)
    is_inside[is_inside] = values[places[is_inside]] == keys[is_inside]
    return is_inside


def copies_of(source: Sequence[str], target: Sequence[str]) -> np.ndarray:
    """Return for each source piece the number of the equal target piece, or -1."""
    numbers = {piece: number for number, piece in enumerate(target)}
    return np.array([numbers.get(piece, -1) for piece in source])


def _keys(source: np.ndarray, target: np.ndarray, size: int) -> np.ndarray:
    return source.astype(np.int64) * size + target


def _occurrences(pairs: Pairs) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """Yield, for some pairs at a time, every source piece with every target piece, after the number of their pair."""
    for begin in range(0, len(pairs), _CHUNK):
        own = [(np.unique(source), np.unique(target)) for source, target in pairs[begin : begin + _CHUNK]]
        numbers = np.repeat(np.arange(len(own)), [len(source) * len(target) for source, target in own])
        sources = [np.repeat(source, len(target)) for source, target in own]
        targets = [np.tile(target, len(source)) for source, target in own]
        yield numbers, np.concatenate(sources), np.concatenate(targets)
