"""Learning the dictionary filter's word translations from the corpora that are to be filtered."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fairseq_ext.corpora.blocks import load_index, num_blocks, read_block
from fairseq_ext.corpora.text_files import Pair
from fairseq_ext.filtering.batch import Batch
from fairseq_ext.filtering.cascade import Filter, run_cascade
from fairseq_ext.filtering.clean import Cleaning, normalise_pairs
from fairseq_ext.filtering.dictionary import Dictionary, learn_dictionary

DICTIONARY_FILE = "dictionary.tsv"
# Learning needs what the cheap filters leave; the language filter would cost more than it gains here.
_NOT_BEFORE = ("language", "dictionary")


def learn_from_corpora(
    folder: Path, corpora: Path, domains: Sequence[str], langs: tuple[str, str], cleaning: Cleaning
) -> None:
    """Learn from pairs taken evenly from all domains, normalised and filtered by the cheap filters.

    Args:
        folder: where to write ``dictionary.tsv``.
        corpora: made by :func:`~fairseq_ext.corpora.import_corpora.import_domain`.
        domains: their names, sorted.
        langs: source and target language.
        cleaning: what to do to them first; its dictionary filter says how many pairs to take.
    """
    dictionary = cleaning.filters["dictionary"]
    assert isinstance(dictionary, Dictionary)
    filters = _filters_before(cleaning)
    indices = {name: load_index(corpora, name) for name in domains}
    # Every so many pairs, so that no domain and no part of one is left out.
    stride = max(1, -(-sum(index["pairs"] for index in indices.values()) // dictionary.sentences))
    chosen: list[Pair] = []
    for name, index in indices.items():
        for block in range(num_blocks(index)):
            pairs = normalise_pairs(read_block(corpora, name, langs, block)[::stride], langs, cleaning.normalise)
            kept = run_cascade(filters, Batch(pairs, langs)).kept
            chosen += [pairs[row] for row in kept.tolist()]
    learn_dictionary(chosen, folder / DICTIONARY_FILE)


def learning_options(cleaning: Cleaning) -> dict[str, Any]:
    """What of the cleaning the learned word translations depend on, as JSON can hold it."""
    dictionary = cleaning.filters["dictionary"]
    assert isinstance(dictionary, Dictionary)
    learned = dataclasses.replace(cleaning, filters=_filters_before(cleaning), deduplicate=None, write_rejected=False)
    return {**dataclasses.asdict(learned), "sentences": dictionary.sentences}


def _filters_before(cleaning: Cleaning) -> dict[str, Filter]:
    return {name: item for name, item in cleaning.filters.items() if name not in _NOT_BEFORE}
