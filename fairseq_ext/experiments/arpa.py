r"""Back-off n-gram models in ARPA files: read, write, and score many sentences at once.

The key of an n-gram is ``row * V + word``: the row of its first n-1 words in the table of order n-1, the vocabulary
size V, and its last word. Tables are sorted by key, so one binary search finds all n-grams of one order in a text.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from fairseq_ext.base.errors import InputError
from fairseq_ext.text.text_files import stream_lines, write_lines

START, END, UNKNOWN = "<s>", "</s>", "<unk>"
NEVER = -99.0  # log10 of probability 0 in ARPA files
_UNKNOWN_LOG_PROB = -100.0  # of an unknown word in a model without <unk>, as in kenlm
_END = "\\end\\"


@dataclass(frozen=True)
class Table:
    """The G n-grams of one order."""

    keys: np.ndarray  # G, sorted
    log_probs: np.ndarray  # G, log10
    back_offs: np.ndarray  # G, log10; zeros for the highest order


@dataclass(frozen=True)
class ArpaModel:
    """A back-off model."""

    numbers: dict[str, int]  # word indices, from 0
    tables: Sequence[Table]  # by order, from 1

    @classmethod
    def read(cls, path: Path) -> ArpaModel:
        """Read an ARPA file, which may be compressed. Everything before its 1-grams is ignored."""
        numbers: dict[str, int] = {}
        tables: list[Table] = []
        words, values = array("q"), array("d")
        order = 0  # of the n-grams being read
        for number, line in enumerate(stream_lines(path), start=1):
            fields = line.split()
            if line.strip() in (f"\\{order + 1}-grams:", _END):
                if order:
                    tables.append(_table(path, words, values, order, tables, len(numbers)))
                if line.strip() == _END:
                    break
                order, words, values = order + 1, array("q"), array("d")
            elif order and fields:
                try:
                    values.extend(_values(fields, order))
                    if order == 1:
                        numbers.setdefault(fields[1], len(numbers))
                    words.extend([numbers[word] for word in fields[1 : order + 1]])
                except (ValueError, KeyError):
                    expected = f"a log probability, {order} known words, and optionally a back-off weight"
                    raise InputError(f"{path}, line {number}: expected {expected}; create the file again") from None
        else:
            raise InputError(f"{path}: has no n-grams or no line {_END}; use a complete ARPA file")
        if not {START, END} <= numbers.keys():
            raise InputError(f"{path}: lacks {START} or {END}; use a model with both sentence marks")
        return cls(numbers, tables)

    def write(self, path: Path) -> None:
        """Write the model to an ARPA file."""
        write_lines(path, self._lines())

    def score(self, texts: Sequence[str]) -> np.ndarray:
        """Return natural log probabilities of N texts, from ``<s>`` to ``</s>``, including unknown words: N."""
        lines = [text.split() for text in texts]
        sentences = np.repeat(np.arange(len(lines)), [len(line) + 2 for line in lines])
        return np.bincount(sentences, self.by_token(lines), len(lines)) * math.log(10)

    def by_token(self, lines: Sequence[Sequence[str]]) -> np.ndarray:
        """Return log10 probabilities of all T tokens, including the sentence marks; 0 for ``<s>``: T."""
        unknown = self.numbers.get(UNKNOWN, -1)
        words = [[self.numbers.get(word, unknown) for word in line] for line in lines]
        tokens, ends = with_ends(words, self.numbers)
        found = [np.zeros_like(tokens), *rows([table.keys for table in self.tables], tokens, ends, len(self.numbers))]
        values, is_open = np.zeros(len(tokens)), np.ones(len(tokens), dtype=bool)
        for order in range(len(self.tables), 0, -1):
            table, row = self.tables[order - 1], ending_here(found[order], order)
            hit = is_open & (row >= 0)
            values[hit] += table.log_probs[row[hit]]
            is_open &= ~hit
            before = ending_here(found[order - 1], order)
            if order > 1:
                backed = is_open & (before >= 0)
                values[backed] += self.tables[order - 2].back_offs[before[backed]]
        values[is_open] += _UNKNOWN_LOG_PROB
        values[np.flatnonzero(np.diff(ends, prepend=0))] = 0.0
        return values

    def _lines(self) -> Iterator[str]:
        yield "\\data\\"
        for order, table in enumerate(self.tables, start=1):
            yield f"ngram {order}={len(table.keys)}"
        below, words = [""], list(self.numbers)
        for order, table in enumerate(self.tables, start=1):
            yield from ("", f"\\{order}-grams:")
            before, last = np.divmod(table.keys, len(words))
            grams = [f"{below[b]} {words[w]}".lstrip() for b, w in zip(before.tolist(), last.tolist(), strict=True)]
            for value, gram, back_off in zip(table.log_probs.tolist(), grams, table.back_offs.tolist(), strict=True):
                yield f"{value:.7g}\t{gram}" + (f"\t{back_off:.7g}" if order < len(self.tables) else "")
            below = grams
        yield from ("", "\\end\\")


def with_ends(lines: Sequence[Sequence[int]], numbers: dict[str, int]) -> tuple[np.ndarray, np.ndarray]:
    """Concatenate lines of word indices, with sentence marks: T tokens, and for each token the end of its line: T."""
    start, end = numbers[START], numbers[END]
    lengths = np.array([len(line) + 2 for line in lines], dtype=np.int64)
    row = (number for line in lines for number in (start, *line, end))
    return np.fromiter(row, np.int64, int(lengths.sum())), np.repeat(lengths.cumsum(), lengths)


def rows(keys: Sequence[np.ndarray], tokens: np.ndarray, ends: np.ndarray, num_words: int) -> list[np.ndarray]:
    """Return for each order the rows of the n-grams that begin at each token, or -1.

    Args:
        keys: keys of the tables by order, from 1.
        tokens: word indices, or -1 for words in no n-gram: T.
        ends: for each token, the end of its line: T.
        num_words: vocabulary size.

    Returns:
        for each order, rows: T.
    """
    found, result = np.zeros_like(tokens), []
    for order, table in enumerate(keys, start=1):
        found = find(table, wanted(found, order, tokens, ends, num_words))
        result.append(found)
    return result


def wanted(below: np.ndarray, order: int, tokens: np.ndarray, ends: np.ndarray, num_words: int) -> np.ndarray:
    """Return the keys of the n-grams that begin at each token, given the rows of their first n-1 words; -1 if none."""
    last = np.append(tokens[order - 1 :], np.full(order - 1, -1))[: len(tokens)]
    is_one = (below >= 0) & (last >= 0) & (np.arange(len(tokens)) + order <= ends)
    return np.where(is_one, below * num_words + last, -1)


def find(keys: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    """Return the index of each key in a sorted array, or -1."""
    if not len(keys):
        return np.full_like(wanted, -1)
    places = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
    return np.where(keys[places] == wanted, places, -1)


def ending_here(found: np.ndarray, order: int) -> np.ndarray:
    """Shift rows from the first token of their n-grams to the last."""
    return np.append(np.full(order - 1, -1), found)[: len(found)]


def _table(
    path: Path, words: array[int], values: array[float], order: int, below: Sequence[Table], num_words: int
) -> Table:
    """Make the table of one order from the words and two values of each n-gram, and the tables of lower orders."""
    keys = _keys(np.array(words, np.int64).reshape(-1, order), below, num_words)
    by_key = np.argsort(keys, kind="stable")
    sorted_keys = keys[by_key]
    if (sorted_keys < 0).any() or (np.diff(sorted_keys) == 0).any():
        wrong = f"a {order}-gram occurs twice, or its first words are not an n-gram of the model"
        raise InputError(f"{path}: {wrong}; create the file again")
    return Table(sorted_keys, *np.array(values).reshape(-1, 2)[by_key].T.copy())


def _values(fields: Sequence[str], order: int) -> tuple[float, float]:
    """Parse the log probability and the optional back-off weight of a line."""
    log_prob, back_off = float(fields[0]), float(fields[order + 1]) if len(fields) > order + 1 else 0.0
    if not order < len(fields) <= order + 2 or not (log_prob <= 0 and math.isfinite(back_off)):
        raise ValueError
    return log_prob, back_off


def _keys(words: np.ndarray, below: Sequence[Table], num_words: int) -> np.ndarray:
    """Return the keys of n-grams, given their words G×n; -1 if the first n-1 words are not an n-gram."""
    before = np.zeros(len(words), np.int64)
    for word, table in zip(words.T, below, strict=False):
        before = find(table.keys, np.where(before >= 0, before * num_words + word, -1))
    return np.where(before >= 0, before * num_words + words[:, -1], -1)
