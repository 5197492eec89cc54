"""Interpolated modified Kneser-Ney smoothing as Chen & Goodman (1999) write it, with discounts by counts of counts."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Sequence
from pathlib import Path

from fairseq_ext.corpora.text_files import read_lines

Gram = tuple[str, ...]


class PlainKneserNey:
    """All n-grams of some sentences, which start with ``<s>`` and end with ``</s>``."""

    def __init__(self, lines: Sequence[Sequence[str]], order: int):
        self.order = order
        self.counts = _counts([["<s>", *words, "</s>"] for words in lines], order)
        self.num_words = len({gram for gram in self.counts[1]})
        self.discounts = [_discounts(counts) for counts in self.counts]
        self.totals: list[Counter[Gram]] = []
        self.kept: list[defaultdict[Gram, float]] = []
        for n, counts in enumerate(self.counts):
            self.totals.append(Counter())
            self.kept.append(defaultdict(float))
            for gram, count in counts.items():
                self.totals[n][gram[:-1]] += count
                self.kept[n][gram[:-1]] += count - self.discounts[n][min(count, 3)]

    def probability(self, gram: Gram) -> float:
        """Of the last word after the others."""
        n, before = len(gram), gram[:-1]
        if not n:
            return 1 / self.num_words
        total, count = self.totals[n][before], self.counts[n][gram]
        if not total:
            return self.probability(gram[1:])
        own = (count - self.discounts[n][min(count, 3)]) / total if count else 0.0
        return own + (1 - self.kept[n][before] / total) * self.probability(gram[1:])

    def nats(self, words: Sequence[str]) -> float:
        line = ["<s>", *words, "</s>"]
        ends = range(2, len(line) + 1)
        return -sum(math.log(self.probability(tuple(line[max(0, end - self.order) : end]))) for end in ends)


def split_lines(path: Path) -> list[list[str]]:
    return [line.split() for line in read_lines(path)]


def _counts(lines: Sequence[Sequence[str]], order: int) -> list[Counter[Gram]]:
    """By n: how often in the highest order and after ``<s>``, else after how many different words."""
    raw = [
        Counter(tuple(line[start : start + n]) for line in lines for start in range(len(line) - n + 1))
        for n in range(order + 1)
    ]
    counts = [Counter[Gram](), *raw[1:]]
    for n in range(1, order):
        counts[n] = Counter(gram[1:] for gram in raw[n + 1])
        counts[n] |= Counter({gram: count for gram, count in raw[n].items() if gram[0] == "<s>"})
    del counts[1][("<s>",)]
    return counts


def _discounts(counts: Counter[Gram]) -> tuple[float, ...]:
    """Of n-grams that occur 0, 1, 2, and 3 or more times."""
    of = Counter(counts.values()) or Counter({1: 1, 2: 1, 3: 1})
    y = of[1] / (of[1] + 2 * of[2])
    return (0.0, *(n - (n + 1) * y * of[n + 1] / of[n] for n in (1, 2, 3)))
