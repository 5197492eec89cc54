"""Learn from the corpora to filter: word translations, lexical evidence, and the length-ratio model."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

from fairseq_ext.cleaning.clean import Cleaning, normalise_pairs
from fairseq_ext.cleaning.completeness import LENGTHS_FILE, learn_lengths
from fairseq_ext.cleaning.dictionary import EVIDENCE_FILE, Dictionary, learn_evidence, read_word_list
from fairseq_ext.cleaning.filters import Batch, Filter, run_filters
from fairseq_ext.cleaning.model_1 import learn_dictionary
from fairseq_ext.corpora.blocks import load_index, num_blocks, read_block
from fairseq_ext.corpora.text_files import Pair

DICTIONARY_FILE = "dictionary.tsv"
_LEARNING = ("completeness", "dictionary")
# Learning needs what the cheap filters leave; the language filter would cost more than it gains here.
_NOT_BEFORE = (*_LEARNING, "language")


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
