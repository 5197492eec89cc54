"""n-gram models with modified Kneser-Ney smoothing, as ARPA files.

All n-grams of the text are kept, and interpolated (Chen & Goodman, 1999, §3). The count of an n-gram is its number of
occurrences if it has the highest order or begins a sentence, and otherwise the number of different words before it.
The three discounts of an order are estimated from its counts of counts.

Perplexity is computed as for neural models: over every word and one ``</s>`` per line, starting from ``<s>``. ``<unk>``
stands for all unknown words. If the text does not contain it, it is a word with count 0.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from fairseq_ext.base.errors import InputError
from fairseq_ext.base.steps import atomic_write
from fairseq_ext.experiments.arpa import END, NEVER, START, UNKNOWN, ArpaModel, Table, find, wanted, with_ends
from fairseq_ext.text.text_files import stream_lines

ORDERS = range(2, 7)
# Used if a text has too few n-grams to estimate discounts.
_USUAL_DISCOUNTS = (0.5, 1.0, 1.5)


@dataclass(frozen=True)
class Counts:
    """Counts of the n-grams of one order, and of the words after their contexts."""

    keys: np.ndarray  # G, keys of the table, sorted
    counts: np.ndarray  # G
    shorter: np.ndarray  # G, rows of the last n-1 words
    totals: np.ndarray  # contexts, sum of the counts of each context's n-grams
    kinds: np.ndarray  # contexts×3, number of different words after a context with counts 1, 2, and 3 or more

    @classmethod
    def of(cls, keys: np.ndarray, counts: np.ndarray, shorter: np.ndarray, num_words: int, contexts: int) -> Counts:
        """Sum counts by context, which is the first n-1 words."""
        before = keys // num_words
        kinds = [np.bincount(before[of], minlength=contexts) for of in (counts == 1, counts == 2, counts > 2)]
        return cls(keys, counts, shorter, np.bincount(before, counts, contexts), np.stack(kinds, 1))

    def discounts(self) -> np.ndarray:
        """Return the discounts for counts 1, 2, and 3 or more (Chen & Goodman, equation 17)."""
        n1, n2, n3, n4 = ((self.counts == count).sum() for count in (1, 2, 3, 4))
        if not min(n1, n2, n3):
            return np.array(_USUAL_DISCOUNTS)
        y = n1 / (n1 + 2 * n2)
        return np.clip([1 - 2 * y * n2 / n1, 2 - 3 * y * n3 / n2, 3 - 4 * y * n4 / n3], 0, (1, 2, 3))


def train_kneser_ney(text: Path, arpa: Path, *, order: int = 5) -> None:
    """Train a model on words separated by spaces, one sentence per line, and write it to an ARPA file."""
    numbers = {UNKNOWN: 0, START: 1, END: 2}
    lines = [[numbers.setdefault(word, len(numbers)) for word in words] for words in _sentences(text)]
    counts = count_orders(lines, numbers, order)
    model = ArpaModel(numbers, estimate(counts))
    with atomic_write(arpa) as temporary:
        model.write(temporary)


def count_orders(lines: Sequence[Sequence[int]], numbers: dict[str, int], order: int) -> list[Counts]:
    """Count the n-grams of sentences up to ``order``. Order 1 has all words, including those with count 0."""
    tokens, ends = with_ends(lines, numbers)
    found, starts = [np.zeros_like(tokens)], [np.zeros(1, np.int64)]
    keys, occurrences = [np.zeros(1, np.int64)], [np.zeros(1, np.int64)]
    for n in range(1, order + 1):
        given = wanted(found[-1], n, tokens, ends, len(numbers))
        distinct, first, times = np.unique(given, return_index=True, return_counts=True)
        real = distinct >= 0
        keys.append(distinct[real])
        starts.append(first[real])
        occurrences.append(times[real])
        if n == 1:
            every = np.arange(len(numbers))
            occurrences[1] = np.bincount(tokens, minlength=len(numbers))
            keys[1], starts[1] = every, np.full(len(numbers), -1)
        found.append(find(keys[-1], given))
    counts = []
    for n in range(1, order + 1):
        # The starts of unigrams are not used.
        shorter = found[n - 1][starts[n] + 1] if n > 1 else np.zeros(len(numbers), np.int64)
        times = occurrences[n]
        if n < order:
            after = np.bincount(found[n][starts[n + 1] + 1], minlength=len(keys[n]))
            is_start = tokens[starts[n]] == numbers[START] if n > 1 else np.zeros(len(numbers), dtype=bool)
            times = np.where(is_start, times, after)
        counts.append(Counts.of(keys[n], times, shorter, len(numbers), len(keys[n - 1])))
    return counts


def estimate(counts: Sequence[Counts]) -> list[Table]:
    """Estimate the tables of a model: interpolated probabilities of observed n-grams, and back-off weights."""
    discounts = [each.discounts() for each in counts]
    left = [(each.kinds @ discount, each.totals) for each, discount in zip(counts, discounts, strict=True)]
    left_over = [np.divide(part, total, np.ones_like(part), where=total > 0) for part, total in left]
    # <s> is excluded: it is never predicted.
    below = np.array([1 / (len(counts[0].keys) - 1)])
    tables = []
    for n, (each, discount) in enumerate(zip(counts, discounts, strict=True)):
        before = each.keys // len(counts[0].keys)
        own = each.counts - np.array([0, *discount])[np.minimum(each.counts, 3)]
        below = own / each.totals[before] + left_over[n][before] * below[each.shorter]
        log_probs = _log10(below)
        if n == 0:
            log_probs[1] = NEVER
        back_offs = _log10(left_over[n + 1]) if n + 1 < len(counts) else np.zeros(len(below))
        tables.append(Table(each.keys, log_probs, back_offs))
    return tables


def _log10(values: np.ndarray) -> np.ndarray:
    return np.log10(np.maximum(values, 10**NEVER))


def likelihood(arpa: Path, text: Path) -> tuple[float, int]:
    """Return the negative log-likelihood of a text in nats, and its number of tokens."""
    lines = list(stream_lines(text))
    return -float(ArpaModel.read(arpa).score(lines).sum()), sum(len(line.split()) + 1 for line in lines)


def count_ngrams(arpa: Path) -> int:
    """Return the number of n-grams of all orders."""
    return sum(len(table.keys) for table in ArpaModel.read(arpa).tables)


def _sentences(text: Path) -> Iterator[list[str]]:
    for number, line in enumerate(stream_lines(text), start=1):
        words = line.split()
        for word in (START, END):
            if word in words:
                raise InputError(f"{text}, line {number}: contains the sentence mark {word!r}; remove it")
        yield words
