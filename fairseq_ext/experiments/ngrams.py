"""n-gram models with modified Kneser-Ney smoothing: training, files, and scores of many sentences at once.

All n-grams of the text are kept, and interpolated (Chen & Goodman, 1999, §3). The count of an n-gram is its number of
occurrences if it has the highest order or begins a sentence, and otherwise the number of different words before it.
The three discounts of an order are estimated from its counts of counts.

Perplexity is computed as for neural models: over every word and one ``</s>`` per line, starting from ``<s>``. ``<unk>``
stands for all unknown words. If the text does not contain it, it is a word with count 0.

The key of an n-gram is ``row * V + word``: the row of its first n-1 words in the table of order n-1, the vocabulary
size V, and its last word. Tables are sorted by key, so one binary search finds all n-grams of one order in a text.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from fairseq_ext.base.errors import InputError
from fairseq_ext.text.text_files import stream_lines

ORDERS = range(2, 7)
START, END, UNKNOWN = "<s>", "</s>", "<unk>"
_NEVER = -99.0  # log10 of probability 0
# Used if a text has too few n-grams to estimate discounts.
_USUAL_DISCOUNTS = (0.5, 1.0, 1.5)


@dataclass(frozen=True)
class Table:
    """The G n-grams of one order."""

    keys: np.ndarray  # G, sorted
    log_probs: np.ndarray  # G, log10
    back_offs: np.ndarray  # G, log10; zeros for the highest order


@dataclass(frozen=True)
class NgramModel:
    """A back-off model. The table of order 1 has all words."""

    numbers: dict[str, int]  # word indices, from 0, in this order
    tables: Sequence[Table]  # by order, from 1

    @classmethod
    def load(cls, path: Path) -> NgramModel:
        """Load a model written by :meth:`save`."""
        with np.load(path, allow_pickle=False) as arrays:
            words = str(arrays["words"]).split(" ")
            orders = range(1, len(arrays) // 3 + 1)
            tables = [Table(*(arrays[f"{name} {order}"] for name in Table.__annotations__)) for order in orders]
        return cls({word: number for number, word in enumerate(words)}, tables)

    def save(self, path: Path) -> None:
        """Write the model as numpy arrays: the words, and the three arrays of each table."""
        tables = {f"{name} {n}": array for n, table in enumerate(self.tables, 1) for name, array in vars(table).items()}
        np.savez(path, words=np.array(" ".join(self.numbers)), **tables)

    def score(self, texts: Sequence[str]) -> np.ndarray:
        """Return natural log probabilities of N texts, from ``<s>`` to ``</s>``, including unknown words: N."""
        lines = [text.split() for text in texts]
        sentences = np.repeat(np.arange(len(lines)), [len(line) + 2 for line in lines])
        return np.bincount(sentences, self.by_token(lines), len(lines)) * math.log(10)

    def by_token(self, lines: Sequence[Sequence[str]]) -> np.ndarray:
        """Return log10 probabilities of all T tokens, including the sentence marks; 0 for ``<s>``: T."""
        words = [[self.numbers.get(word, self.numbers[UNKNOWN]) for word in line] for line in lines]
        tokens, ends = _with_ends(words, self.numbers)
        rows = [np.zeros_like(tokens)]  # by order, from 0: of the n-grams that begin at each token
        for order, table in enumerate(self.tables, start=1):
            rows.append(_find(table.keys, _keys_at(rows[-1], order, tokens, ends, len(self.numbers))))
        values, is_open = np.zeros(len(tokens)), np.ones(len(tokens), dtype=bool)
        for order in range(len(self.tables), 0, -1):
            table, row = self.tables[order - 1], _ending_here(rows[order], order)
            hit = is_open & (row >= 0)
            values[hit] += table.log_probs[row[hit]]
            is_open &= ~hit
            if order > 1:
                context = _ending_here(rows[order - 1], order)
                backed = is_open & (context >= 0)
                values[backed] += self.tables[order - 2].back_offs[context[backed]]
        values[np.flatnonzero(np.diff(ends, prepend=0))] = 0.0
        return values


def likelihood(model: Path, text: Path) -> tuple[float, int]:
    """Return the negative log-likelihood of a text in nats, and its number of tokens."""
    lines = list(stream_lines(text))
    return -float(NgramModel.load(model).score(lines).sum()), sum(len(line.split()) + 1 for line in lines)


def count_ngrams(model: Path) -> int:
    """Return the number of n-grams of all orders."""
    return sum(len(table.keys) for table in NgramModel.load(model).tables)


# Training


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
        context = keys // num_words
        kinds = [np.bincount(context[of], minlength=contexts) for of in (counts == 1, counts == 2, counts > 2)]
        return cls(keys, counts, shorter, np.bincount(context, counts, contexts), np.stack(kinds, 1))

    def discounts(self) -> np.ndarray:
        """Return the discounts for counts 1, 2, and 3 or more (Chen & Goodman, equation 17)."""
        n1, n2, n3, n4 = ((self.counts == count).sum() for count in (1, 2, 3, 4))
        if not min(n1, n2, n3):
            return np.array(_USUAL_DISCOUNTS)
        y = n1 / (n1 + 2 * n2)
        return np.clip([1 - 2 * y * n2 / n1, 2 - 3 * y * n3 / n2, 3 - 4 * y * n4 / n3], 0, (1, 2, 3))


def train_kneser_ney(text: Path, order: int) -> NgramModel:
    """Train a model on words separated by spaces, one sentence per line."""
    numbers = {UNKNOWN: 0, START: 1, END: 2}
    lines = [[numbers.setdefault(word, len(numbers)) for word in words] for words in _sentences(text)]
    return NgramModel(numbers, _estimate(_count_orders(lines, numbers, order)))


def _sentences(text: Path) -> Iterator[list[str]]:
    for number, line in enumerate(stream_lines(text), start=1):
        words = line.split()
        for word in (START, END):
            if word in words:
                raise InputError(f"{text}, line {number}: contains the sentence mark {word!r}; remove it")
        yield words


def _count_orders(lines: Sequence[Sequence[int]], numbers: dict[str, int], order: int) -> list[Counts]:
    """Count the n-grams of sentences up to ``order``. Order 1 has all words, including those with count 0."""
    tokens, ends = _with_ends(lines, numbers)
    rows, starts = [np.zeros_like(tokens)], [np.zeros(1, np.int64)]
    keys, occurrences = [np.zeros(1, np.int64)], [np.zeros(1, np.int64)]
    for n in range(1, order + 1):
        at_token = _keys_at(rows[-1], n, tokens, ends, len(numbers))
        distinct, first, times = np.unique(at_token, return_index=True, return_counts=True)
        real = distinct >= 0
        keys.append(distinct[real])
        starts.append(first[real])
        occurrences.append(times[real])
        if n == 1:
            every = np.arange(len(numbers))
            occurrences[1] = np.bincount(tokens, minlength=len(numbers))
            keys[1], starts[1] = every, np.full(len(numbers), -1)
        rows.append(_find(keys[-1], at_token))
    counts = []
    for n in range(1, order + 1):
        # The starts of unigrams are not used.
        shorter = rows[n - 1][starts[n] + 1] if n > 1 else np.zeros(len(numbers), np.int64)
        times = occurrences[n]
        if n < order:
            after = np.bincount(rows[n][starts[n + 1] + 1], minlength=len(keys[n]))
            is_start = tokens[starts[n]] == numbers[START] if n > 1 else np.zeros(len(numbers), dtype=bool)
            times = np.where(is_start, times, after)
        counts.append(Counts.of(keys[n], times, shorter, len(numbers), len(keys[n - 1])))
    return counts


def _estimate(counts: Sequence[Counts]) -> list[Table]:
    """Estimate the tables of a model: interpolated probabilities of observed n-grams, and back-off weights."""
    discounts = [of_order.discounts() for of_order in counts]
    left = [(of_order.kinds @ discount, of_order.totals) for of_order, discount in zip(counts, discounts, strict=True)]
    left_over = [np.divide(part, total, np.ones_like(part), where=total > 0) for part, total in left]
    # <s> is excluded: it is never predicted.
    lower = np.array([1 / (len(counts[0].keys) - 1)])
    tables = []
    for n, (of_order, discount) in enumerate(zip(counts, discounts, strict=True)):
        context = of_order.keys // len(counts[0].keys)
        discounted = of_order.counts - np.array([0, *discount])[np.minimum(of_order.counts, 3)]
        lower = discounted / of_order.totals[context] + left_over[n][context] * lower[of_order.shorter]
        log_probs = _log10(lower)
        if n == 0:
            log_probs[1] = _NEVER
        back_offs = _log10(left_over[n + 1]) if n + 1 < len(counts) else np.zeros(len(lower), np.float32)
        tables.append(Table(of_order.keys, log_probs, back_offs))
    return tables


def _log10(values: np.ndarray) -> np.ndarray:
    # In single precision, so that choices by scores do not depend on the processor's rounding.
    return np.log10(np.maximum(values, 10**_NEVER)).astype(np.float32)


# Keys and rows


def _with_ends(lines: Sequence[Sequence[int]], numbers: dict[str, int]) -> tuple[np.ndarray, np.ndarray]:
    """Concatenate lines of word indices, with sentence marks: T tokens, and for each token the end of its line: T."""
    start, end = numbers[START], numbers[END]
    lengths = np.array([len(line) + 2 for line in lines], dtype=np.int64)
    tokens = (number for line in lines for number in (start, *line, end))
    return np.fromiter(tokens, np.int64, int(lengths.sum())), np.repeat(lengths.cumsum(), lengths)


def _keys_at(rows: np.ndarray, order: int, tokens: np.ndarray, ends: np.ndarray, num_words: int) -> np.ndarray:
    """Return the keys of the n-grams that begin at each token, given the rows of their first n-1 words; -1 if none."""
    last = np.append(tokens[order - 1 :], np.full(order - 1, -1))[: len(tokens)]
    is_one = (rows >= 0) & (last >= 0) & (np.arange(len(tokens)) + order <= ends)
    return np.where(is_one, rows * num_words + last, -1)


def _find(keys: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    """Return the index of each key in a sorted array, or -1."""
    if not len(keys):
        return np.full_like(wanted, -1)
    places = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
    return np.where(keys[places] == wanted, places, -1)


def _ending_here(rows: np.ndarray, order: int) -> np.ndarray:
    """Shift rows from the first token of their n-grams to the last."""
    return np.append(np.full(order - 1, -1), rows)[: len(rows)]
