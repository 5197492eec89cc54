"""Learning from the corpora that are to be filtered what filters need to know: word translations, usual lengths."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from fairseq_ext.corpora.blocks import load_index, num_blocks, read_block
from fairseq_ext.corpora.text_files import Pair
from fairseq_ext.filtering.batch import Batch
from fairseq_ext.filtering.cascade import Filter, run_cascade
from fairseq_ext.filtering.clean import Cleaning, normalise_pairs
from fairseq_ext.filtering.completeness import LENGTHS_FILE, Completeness
from fairseq_ext.filtering.dictionary import DICTIONARY_FILE, SUPPORT_FILE, Dictionary
from fairseq_ext.filtering.model_1 import learn_dictionary
from fairseq_ext.filtering.usual_lengths import learn_lengths
from fairseq_ext.filtering.word_support import learn_support

# Learning needs what the cheap filters leave; the language filter would cost more than it gains here.
_NOT_BEFORE = ("completeness", "language", "dictionary")


def has_to_learn(filters: Mapping[str, Filter]) -> bool:
    """Whether a filter needs something that is learned."""
    dictionary = _dictionary_of(filters)
    return "completeness" in filters or (
        dictionary is not None and (dictionary.word_list is None or dictionary.max_evidence is not None)
    )


def learn_from_corpora(
    folder: Path, corpora: Path, domains: Sequence[str], langs: tuple[str, str], cleaning: Cleaning
) -> None:
    """Learn from pairs taken evenly from all domains; see :func:`learn_from_pairs`.

    Args:
        folder: where to write.
        corpora: made by :func:`~fairseq_ext.corpora.import_corpora.import_domain`.
        domains: their names, sorted.
        langs: source and target language.
        cleaning: what to do to them first; its dictionary filter says how many pairs to take.
    """
    indices = {name: load_index(corpora, name) for name in domains}
    # Every so many pairs, so that no domain and no part of one is left out.
    stride = max(1, -(-sum(index["pairs"] for index in indices.values()) // _sentences(cleaning)))
    chosen: list[Pair] = []
    for name, index in indices.items():
        for block in range(num_blocks(index)):
            chosen += _usable(read_block(corpora, name, langs, block)[::stride], langs, cleaning)
    _write(folder, chosen, cleaning)


def learn_from_pairs(folder: Path, pairs: Sequence[Pair], langs: tuple[str, str], cleaning: Cleaning) -> None:
    """Learn from pairs, once these are normalised and filtered by the cheap filters.

    Args:
        folder: where to write what the filters need: word translations and what they say, usual lengths.
        pairs: as they are in the corpora.
        langs: source and target language.
        cleaning: what to do to them first, and the filters to learn for.
    """
    _write(folder, _usable(pairs, langs, cleaning), cleaning)


def learning_options(cleaning: Cleaning) -> dict[str, Any]:
    """What of the cleaning the learned depends on, as JSON can hold it."""
    learned = dataclasses.replace(cleaning, filters=_filters_before(cleaning), deduplicate=None, write_rejected=False)
    learns_for = sorted(name for name, item in cleaning.filters.items() if _is_learning(item))
    return {**dataclasses.asdict(learned), "sentences": _sentences(cleaning), "learns_for": learns_for}


def _is_learning(item: Filter) -> bool:
    return isinstance(item, Completeness | Dictionary)


def _dictionary_of(filters: Mapping[str, Filter]) -> Dictionary | None:
    dictionary = filters.get("dictionary")
    assert dictionary is None or isinstance(dictionary, Dictionary)
    return dictionary


def _sentences(cleaning: Cleaning) -> int:
    return (_dictionary_of(cleaning.filters) or Dictionary()).sentences


def _usable(pairs: Sequence[Pair], langs: tuple[str, str], cleaning: Cleaning) -> list[Pair]:
    pairs = normalise_pairs(pairs, langs, cleaning.normalise)
    kept = run_cascade(_filters_before(cleaning), Batch(pairs, langs)).kept
    return [pairs[row] for row in kept.tolist()]


def _write(folder: Path, pairs: Sequence[Pair], cleaning: Cleaning) -> None:
    if "completeness" in cleaning.filters:
        learn_lengths(pairs, folder / LENGTHS_FILE)
    if dictionary := _dictionary_of(cleaning.filters):
        word_list = Path(dictionary.word_list or folder / DICTIONARY_FILE)
        if dictionary.word_list is None:
            learn_dictionary(pairs, word_list)
        if dictionary.max_evidence is not None or "completeness" in cleaning.filters:
            learn_support(pairs, word_list, folder / SUPPORT_FILE)


def _filters_before(cleaning: Cleaning) -> dict[str, Filter]:
    return {name: item for name, item in cleaning.filters.items() if name not in _NOT_BEFORE}
