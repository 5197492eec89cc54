"""Write the lexicons of an exported system, which shorten its output layer."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import numpy as np

from fairseq_ext.base.domain_names import DOMAINS_FILE, read_domain_names
from fairseq_ext.serve.runtime.vocabulary import REMEDY, Vocabulary
from fairseq_ext.text.lexicons import (
    BASE,
    SHORTLIST_FILE,
    Pairs,
    copies_of,
    count_lexicon,
    read_lexicons,
    write_lexicons,
)

# Target symbols with which a shortlist is of use.
_MANY = 4000


def write_shortlist(folder: Path, data: Path, languages: tuple[str, str], vocabulary: Vocabulary) -> None:
    """Add lexicons of the domains, counted in their training pairs, to those of the base in a folder.

    A base that comes without a lexicon gets one that is counted in the pairs of all domains. Nothing is written for a
    small vocabulary, and for a model without training pairs.

    Args:
        data: data directory of the training.
    """
    path = folder / SHORTLIST_FILE
    if len(vocabulary.target) < _MANY:
        return
    sizes, copies = (len(vocabulary.source), len(vocabulary.target)), copies_of(vocabulary.source, vocabulary.target)
    pairs = {name: _training_pairs(data / name, languages) for name in read_domain_names(folder / DOMAINS_FILE)}
    lexicons = read_lexicons(path, sizes, REMEDY) if path.is_file() else {}
    if BASE not in lexicons:
        joined = [pair for own in pairs.values() for pair in own]
        if not joined:
            return
        lexicons[BASE] = count_lexicon(joined, copies)
    for name, own in pairs.items():
        if own:
            lexicons[name] = count_lexicon(own, copies, lexicons[BASE])
    write_lexicons(path, lexicons)


def keep_lexicons(folder: Path, vocabulary: Vocabulary, domains: Iterable[str]) -> None:
    """Keep the lexicons of the base and of these domains, if the folder has any."""
    path = folder / SHORTLIST_FILE
    if path.is_file():
        lexicons = read_lexicons(path, (len(vocabulary.source), len(vocabulary.target)), REMEDY)
        write_lexicons(path, {name: own for name, own in lexicons.items() if name in {BASE, *domains}})


def _training_pairs(folder: Path, languages: tuple[str, str]) -> Pairs:
    """Return the binarised training pairs of a domain; none if there are no such files."""
    from fairseq.data import data_utils

    prefix = folder / f"train.{'-'.join(languages)}"
    sides = [data_utils.load_indexed_dataset(f"{prefix}.{language}", None) for language in languages]
    if None in sides:
        return []
    return [(np.asarray(source), np.asarray(target)) for source, target in zip(*sides, strict=True)]
