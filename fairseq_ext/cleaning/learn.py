"""Learn from the corpora to filter: word translations, lexical evidence, and the length-ratio model.

Words and their translations are learned by IBM model 1 (Brown et al. 1993) in both directions. Nothing in that is
random or depends on the number of threads: the same pairs give the same list, byte for byte.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from fairseq_ext.cleaning.clean import Cleaning, normalise_pairs
from fairseq_ext.cleaning.completeness import LENGTHS_FILE, learn_lengths
from fairseq_ext.cleaning.dictionary import EVIDENCE_FILE, Dictionary, learn_evidence, read_word_list, stems
from fairseq_ext.cleaning.filters import Batch, Filter, run_filters
from fairseq_ext.corpora.blocks import load_index, num_blocks, read_block
from fairseq_ext.corpora.text_files import Pair, write_lines
from fairseq_ext.inputs.errors import InputError

if TYPE_CHECKING:
    from scipy.sparse import csr_array

DICTIONARY_FILE = "dictionary.tsv"
_LEARNING = ("completeness", "dictionary")
# Learning needs what the cheap filters leave; the language filter would cost more than it gains here.
_NOT_BEFORE = (*_LEARNING, "language")
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


def has_to_learn(filters: Mapping[str, Filter]) -> bool:
    """Whether a filter needs something that is learned."""
    return any(name in filters for name in _LEARNING)


def learn_from_corpora(
    folder: Path, corpora: Path, domains: Sequence[str], langs: tuple[str, str], cleaning: Cleaning
) -> None:
    """Learn from pairs taken evenly from all domains of the folder ``corpora``; see :func:`learn_from_pairs`."""
    indices = {name: load_index(corpora, name) for name in domains}
    dictionary = cleaning.chosen.dictionary or Dictionary()
    # Every so many pairs, so that no domain and no part of one is left out.
    stride = max(1, -(-sum(index["pairs"] for index in indices.values()) // dictionary.sentences))
    chosen: list[Pair] = []
    for name, index in indices.items():
        for block in range(num_blocks(index)):
            chosen += read_block(corpora, name, langs, block)[::stride]
    learn_from_pairs(folder, chosen, langs, cleaning)


def learn_from_pairs(folder: Path, pairs: Sequence[Pair], langs: tuple[str, str], cleaning: Cleaning) -> None:
    """Normalise pairs, filter them by the cheap filters, and write what the other filters need to ``folder``."""
    pairs = normalise_pairs(pairs, langs, cleaning.normalise)
    cheap = {name: each for name, each in cleaning.filters.items() if name not in _NOT_BEFORE}
    accepted, _ = run_filters(cheap, Batch(pairs, langs))
    pairs = [pairs[row] for row in accepted]
    learn_lengths(pairs, folder / LENGTHS_FILE)
    if dictionary := cleaning.chosen.dictionary:
        if dictionary.word_list is None:
            learn_dictionary(pairs, folder / DICTIONARY_FILE)
        else:
            shutil.copyfile(dictionary.word_list, folder / DICTIONARY_FILE)
        learn_evidence(pairs, read_word_list(folder / DICTIONARY_FILE), folder / EVIDENCE_FILE)


def learn_dictionary(pairs: Iterable[Pair], output: Path) -> None:
    """Learn word translations, and write them sorted: source, target and probability, tab-separated.

    Neither the pairs' order nor repetitions matter; 200,000 pairs of 16 words take 15 seconds and 450 MB.
    """
    different = sorted(pair for pair in set(pairs) if not any(map(_is_endless, pair)))
    sources, source_words = _occurrences([pair.source for pair in different])
    targets, target_words = _occurrences([pair.target for pair in different])
    candidates = _candidates(sources, targets)
    if not candidates.nnz:
        raise _nothing_found(len(different))
    probabilities = _train(sources, targets, candidates)
    rows = _row_numbers(candidates)
    chosen = np.flatnonzero(probabilities >= _MIN_PROBABILITY)
    entries = zip(rows[chosen].tolist(), candidates.indices[chosen].tolist(), probabilities[chosen], strict=True)
    write_lines(output, (f"{source_words[row]}\t{target_words[column]}\t{value:.3f}" for row, column, value in entries))


def _is_endless(text: str) -> bool:
    return len(text) > 2 * _MAX_WORDS and len(set(stems(text))) > _MAX_WORDS


def _nothing_found(num_pairs: int) -> InputError:
    return InputError(f"dictionary: no word translations in {num_pairs} pairs; give a word_list instead")


def _occurrences(sentences: Sequence[str]) -> tuple[csr_array, Sequence[str]]:
    """Ones where a sentence holds one of W words, neither too rare nor too frequent (N×W), and these words."""
    # Takes a second to import.
    from scipy.sparse import csr_array
    from sklearn.feature_extraction.text import CountVectorizer

    counter = CountVectorizer(analyzer=stems, binary=True, min_df=_MIN_COUNT, max_df=_MAX_SHARE, dtype=np.int32)
    try:
        matrix = csr_array(counter.fit_transform(sentences))
    except ValueError:  # no word is left
        raise _nothing_found(len(sentences)) from None
    matrix.sort_indices()
    return matrix, counter.get_feature_names_out()


def _candidates(sources: csr_array, targets: csr_array) -> csr_array:
    """Pairs of words that occur together often enough.

    Shape:
        sources: N×V; targets: N×W; result: V×W, the C counts in row-major order
    """
    from scipy.sparse import csr_array, vstack

    by_word = csr_array(sources.T)
    chance = targets.sum(axis=0) / targets.shape[0]
    blocks = []
    for start in range(0, by_word.shape[0], _WORDS_A_BLOCK):
        block = csr_array(by_word[start : start + _WORDS_A_BLOCK])
        together = csr_array(block @ targets)
        expected = block.sum(axis=1)[_row_numbers(together)] * chance[together.indices]
        together.data[(together.data < _MIN_COUNT) | (together.data < _MIN_LIFT * expected)] = 0
        together.eliminate_zeros()
        together.sort_indices()
        blocks.append(together)
    return csr_array(vstack(blocks, format="csr"))


def _row_numbers(matrix: csr_array) -> np.ndarray:
    return np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr))


def _train(sources: csr_array, targets: csr_array, candidates: csr_array) -> np.ndarray:
    """The geometric mean of P(target | source) and P(source | target) by IBM model 1. Shape: C"""
    chunks = list(_meetings(sources, targets, candidates))
    rows, columns = _row_numbers(candidates), candidates.indices
    forward = _train_direction([(candidate, target) for candidate, _, target in chunks], rows)
    backward = _train_direction([(candidate, source) for candidate, source, _ in chunks], columns)
    return np.sqrt(forward * backward)


def _train_direction(chunks: Sequence[tuple[np.ndarray, np.ndarray]], given: np.ndarray) -> np.ndarray:
    """Expectation maximisation from equal probabilities, C.

    Args:
        chunks: entries of candidates, and of the occurrences that these explain.
        given: of each candidate the word that the probability is conditioned on, C
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


def _meetings(
    sources: csr_array, targets: csr_array, candidates: csr_array
) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """Find the candidates in sentences, so many sentences at a time that memory stays small.

    Yields:
        an entry for each time that both words of a candidate are in a sentence: the candidate's number, and those of
        the occurrences of its source and its target word, counted within the chunk.
    """
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
        hits = np.flatnonzero(keys[np.minimum(found, len(keys) - 1)] == wanted)
        yield (
            found[hits].astype(np.int32),
            (row[hits] - sources.indptr[start]).astype(np.int32),
            (column[hits] - targets.indptr[start]).astype(np.int32),
        )
