"""Learn from the corpora to filter: word translations, lexical evidence, and the length-ratio model."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

from fairseq_ext.cleaning.clean import Cleaning, normalise_pairs
from fairseq_ext.cleaning.completeness import LENGTHS_FILE, learn_lengths
from fairseq_ext.cleaning.dictionary import Dictionary, read_word_list
from fairseq_ext.cleaning.filter import Batch, Filter, run_filters
from fairseq_ext.cleaning.lexical_evidence import EVIDENCE_FILE, learn_evidence
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
    # Every so many pairs, so that no domain and no part of one is left out.
    stride = max(1, -(-sum(index["pairs"] for index in indices.values()) // _dictionary(cleaning).sentences))
    chosen: list[Pair] = []
    for name, index in indices.items():
        for block in range(num_blocks(index)):
            chosen += _usable(read_block(corpora, name, langs, block)[::stride], langs, cleaning)
    _learn(folder, chosen, cleaning)


def learn_from_pairs(folder: Path, pairs: Sequence[Pair], langs: tuple[str, str], cleaning: Cleaning) -> None:
    """Normalise pairs, filter them by the cheap filters, and write what the other filters need to ``folder``."""
    _learn(folder, _usable(pairs, langs, cleaning), cleaning)


def _dictionary(cleaning: Cleaning) -> Dictionary:
    dictionary = cleaning.filters.get("dictionary", Dictionary())
    assert isinstance(dictionary, Dictionary)
    return dictionary


def _usable(pairs: Sequence[Pair], langs: tuple[str, str], cleaning: Cleaning) -> list[Pair]:
    pairs = normalise_pairs(pairs, langs, cleaning.normalise)
    before = {name: item for name, item in cleaning.filters.items() if name not in _NOT_BEFORE}
    accepted, _ = run_filters(before, Batch(pairs, langs))
    return [pairs[row] for row in accepted]


def _learn(folder: Path, pairs: Sequence[Pair], cleaning: Cleaning) -> None:
    learn_lengths(pairs, folder / LENGTHS_FILE)
    if "dictionary" in cleaning.filters:
        word_list = _dictionary(cleaning).word_list
        if word_list is None:
            learn_dictionary(pairs, folder / DICTIONARY_FILE)
        else:
            shutil.copyfile(word_list, folder / DICTIONARY_FILE)
        learn_evidence(pairs, read_word_list(folder / DICTIONARY_FILE), folder / EVIDENCE_FILE)
