"""Counts of importing and cleaning a domain, with samples of what was dropped."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

MAX_SAMPLES = 5  # per domain and filter
DROPPED, IMPORTED = "dropped by ", "imported: "  # what names of counts begin with


class Drop(NamedTuple):
    """A dropped pair: its line in the imported corpus (from 1), the filter and its reason, and the normalised text."""

    line: int
    filter: str
    reason: str
    source: str
    target: str


class Tally:
    """Counts of importing and cleaning a domain; blocks are added in corpus order."""

    def __init__(self, imported: Mapping[str, int]) -> None:
        # Lines first, as all other counts are parts of them.
        names = sorted(imported, key=lambda name: (name != "lines", name))
        self.counts = Counter({f"{IMPORTED}{name}": imported[name] for name in names})
        self._samples: dict[str, list[Drop]] = {}
        self._random = random.Random(1)

    def add_block(self, counts: Mapping[str, int], drops: Sequence[Drop]) -> None:
        """Add the counts of a block (``pairs``, ``changed`` by normalisation, ``kept``) and its dropped pairs."""
        self.counts.update(counts)
        for drop in drops:
            name = f"{DROPPED}{drop.filter}"
            self.counts[name] += 1
            # Reservoir sampling: all dropped pairs of a filter are equally likely.
            samples = self._samples.setdefault(drop.filter, [])
            if len(samples) < MAX_SAMPLES:
                samples.append(drop)
            elif (place := self._random.randrange(self.counts[name])) < MAX_SAMPLES:
                samples[place] = drop

    def samples_of(self, name: str) -> list[Drop]:
        """Return the samples of a filter, sorted by line."""
        return sorted(self._samples.get(name, []))

    def summary(self) -> str:
        """Return a short summary of the dropped pairs."""
        dropped = {name: count for name, count in self.counts.items() if name.startswith(DROPPED)}
        return ", ".join(f"{count:,} {name}" for name, count in dropped.items())
