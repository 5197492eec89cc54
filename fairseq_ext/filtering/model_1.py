"""Word translations of a corpus, learned by IBM model 1 (Brown et al. 1993) in both directions.

Nothing in that is random or depends on the number of threads: the same pairs give the same list, byte for byte.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from scipy.sparse import csr_array, vstack

from fairseq_ext.corpora.text_files import Pair, write_lines
from fairseq_ext.filtering.word_list import stems
from fairseq_ext.inputs.errors import InputError

# Only these words and pairs of words are learned from: words of more than one and of at most a twentieth of all
# sentences, as function words fit everywhere and decide nothing; pairs met twice, and three times as often as by
# chance. That leaves so little that 200,000 sentences take seconds.
_MIN_COUNT = 2
_MAX_SHARE = 0.05
_MIN_LIFT = 3.0
# Longer sentences say little on which word translates which, and cost the product of their lengths.
_MAX_WORDS = 80
_ITERATIONS = 5
# Of the geometric mean of P(target | source) and P(source | target).
_MIN_PROBABILITY = 0.03
_WORDS_A_BLOCK = 2000
_ENTRIES_A_CHUNK = 1 << 19


def learn_dictionary(pairs: Iterable[Pair], output: Path) -> int:
    """Learn word translations, and write them sorted: source, target and probability, tab-separated.

    Neither the pairs' order nor repetitions matter.

    Args:
        pairs: sentences and their translations; 200,000 of 16 words take 15 seconds and 450 MB.
        output: file to write.

    Returns:
        Number of entries.

    Raises:
        InputError: if nothing can be learned.
    """
    different = sorted(set(pairs))
    sides = _Occurrences(), _Occurrences()
    for pair in different:
        words = stems(pair.source), stems(pair.target)
        if max(map(len, words)) <= _MAX_WORDS:
            for side, found in zip(sides, words, strict=True):
                side.add(found)
    (sources, source_words), (targets, target_words) = (side.telling_words() for side in sides)
    candidates = _candidates(sources, targets)
    probabilities = _train(sources, targets, candidates)
    rows = _row_numbers(candidates)
    chosen = np.flatnonzero(probabilities >= _MIN_PROBABILITY)
    if not len(chosen):
        raise InputError(f"dictionary: no word translations in {len(different)} pairs; give a word_list instead")
    entries = zip(rows[chosen].tolist(), candidates.indices[chosen].tolist(), probabilities[chosen], strict=True)
    write_lines(output, (f"{source_words[row]}\t{target_words[column]}\t{value:.3f}" for row, column, value in entries))
    return len(chosen)


class _Occurrences:
    """Which words are in which of N sentences."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}
        self._words, self._ends = array("i"), array("q", [0])

    def add(self, words: set[str]) -> None:
        """Append a sentence."""
        self._words.extend([self._numbers.setdefault(word, len(self._numbers)) for word in words])
        self._ends.append(len(self._words))

    def telling_words(self) -> tuple[csr_array, list[str]]:
        """Leave out words that are too rare or too frequent.

        Returns:
            ones where a sentence holds a word (N×W), and the W words in order.
        """
        num_sentences, columns = len(self._ends) - 1, np.array(self._words, dtype=np.int32)
        counts = np.bincount(columns, minlength=len(self._numbers))
        is_telling = (counts >= _MIN_COUNT) & (counts <= _MAX_SHARE * num_sentences)
        words = sorted(word for word, number in self._numbers.items() if is_telling[number])
        ones = np.ones(len(columns), dtype=np.int32)
        matrix = csr_array((ones, columns, self._ends), shape=(num_sentences, len(self._numbers)))
        matrix = csr_array(matrix[:, [self._numbers[word] for word in words]])
        # Sets of text iterate differently in every process, and sums of floats depend on their order.
        matrix.sort_indices()
        return matrix, words


def _candidates(sources: csr_array, targets: csr_array) -> csr_array:
    """Pairs of words that occur together often enough.

    Shape:
        sources: N×V; targets: N×W; result: V×W, the C counts in row-major order
    """
    by_word = csr_array(sources.T)
    chance = targets.sum(axis=0) / max(targets.shape[0], 1)
    blocks = []
    for start in range(0, by_word.shape[0], _WORDS_A_BLOCK):
        block = csr_array(by_word[start : start + _WORDS_A_BLOCK])
        together = csr_array(block @ targets)
        expected = block.sum(axis=1)[_row_numbers(together)] * chance[together.indices]
        together.data[(together.data < _MIN_COUNT) | (together.data < _MIN_LIFT * expected)] = 0
        together.eliminate_zeros()
        together.sort_indices()
        blocks.append(together)
    return csr_array(vstack(blocks, format="csr")) if blocks else csr_array((0, targets.shape[1]), dtype=np.int32)


def _row_numbers(matrix: csr_array) -> np.ndarray:
    return np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr))


@dataclass
class _Meetings:
    """The candidates in some sentences, one entry for each time that both words are there.

    Attributes:
        candidate: which of the C candidates.
        source: which occurrence of a source word, counted from 0.
        target: which occurrence of a target word.
    """

    candidate: np.ndarray
    source: np.ndarray
    target: np.ndarray


def _train(sources: csr_array, targets: csr_array, candidates: csr_array) -> np.ndarray:
    """IBM model 1 in both directions.

    Returns:
        the geometric mean of P(target | source) and P(source | target). Shape: C
    """
    chunks = list(_meetings(sources, targets, candidates))
    rows, columns = _row_numbers(candidates), candidates.indices
    forward = _train_direction([(each.candidate, each.target) for each in chunks], rows)
    backward = _train_direction([(each.candidate, each.source) for each in chunks], columns)
    return np.sqrt(forward * backward)


def _train_direction(chunks: Sequence[tuple[np.ndarray, np.ndarray]], given: np.ndarray) -> np.ndarray:
    """Expectation maximisation from equal probabilities.

    Args:
        chunks: entries of candidates, and of the occurrences that these explain.
        given: of each candidate the word that the probability is conditioned on.

    Shape:
        given: C; result: C
    """
    probabilities = _normalise(np.ones(len(given)), given)
    for _ in range(_ITERATIONS):
        counts = np.zeros(len(given))
        for candidate, occurrence in chunks:
            shares = probabilities[candidate]
            shares /= np.bincount(occurrence, shares)[occurrence]
            counts += np.bincount(candidate, shares, minlength=len(given))
        probabilities = _normalise(counts, given)
    return probabilities


def _normalise(counts: np.ndarray, given: np.ndarray) -> np.ndarray:
    totals = np.bincount(given, counts)
    return counts / np.maximum(totals[given], np.finfo(float).tiny)


def _meetings(sources: csr_array, targets: csr_array, candidates: csr_array) -> Iterator[_Meetings]:
    """Find the candidates in sentences, so many sentences at a time that memory stays small."""
    width = candidates.shape[1]
    keys = _row_numbers(candidates) * width + candidates.indices
    lengths = np.diff(sources.indptr), np.diff(targets.indptr)
    sizes = lengths[0].astype(np.int64) * lengths[1]
    cuts = np.flatnonzero(np.diff(np.cumsum(sizes) // _ENTRIES_A_CHUNK)) + 1
    bounds = [0, *cuts.tolist(), len(sizes)]
    for start, end in zip(bounds, bounds[1:], strict=False):
        # Every source word of a sentence meets every target word of it.
        sentence = np.repeat(np.arange(start, end), sizes[start:end])
        first = np.repeat(np.cumsum(sizes[start:end]) - sizes[start:end], sizes[start:end])
        row, column = np.divmod(np.arange(len(sentence)) - first, lengths[1][sentence])
        row += sources.indptr[sentence]
        column += targets.indptr[sentence]
        wanted = sources.indices[row].astype(np.int64) * width + targets.indices[column]
        found = np.searchsorted(keys, wanted)
        hits = np.flatnonzero(keys[np.minimum(found, len(keys) - 1)] == wanted) if len(keys) else found[:0]
        yield _Meetings(
            found[hits].astype(np.int32),
            (row[hits] - sources.indptr[start]).astype(np.int32),
            (column[hits] - targets.indptr[start]).astype(np.int32),
        )
