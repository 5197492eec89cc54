"""The domain-switch test set: test sentences of two domains, joined."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from fairseq_ext.corpora.split import stable_hash
from fairseq_ext.corpora.text_files import read_parallel, write_lines
from fairseq_ext.inputs.domain_names import DOMAINS_FILE, read_domain_names
from fairseq_ext.inputs.errors import InputError

_LEAST_WORDS = 4  # of a sentence that is joined, on both sides
_TRIES = 200  # for each pair that is wanted


@dataclass(frozen=True)
class JoinedPair:
    """Two sentence pairs in a row: their domains; source and target."""

    domains: tuple[str, str]
    texts: tuple[str, str]


def draw_pairs(splits: Path, langs: tuple[str, str], count: int, max_words: int, seed: int) -> list[JoinedPair]:
    """Join ``count`` test sentences of two domains, drawn by the seed; a domain comes as often as any other.

    ``splits`` holds ``DOMAIN/test.LANG``; a joined side has at most ``max_words``, as a sentence of the corpora.
    """
    domains = read_domain_names(splits / DOMAINS_FILE)
    if len(domains) < 2:
        raise InputError(
            f"{splits / DOMAINS_FILE}: evaluate: domain_switch needs two domains, and there is one; leave it out"
        )
    texts = {name: read_parallel(*(splits / name / f"test.{lang}" for lang in langs)) for name in domains}
    generator = np.random.default_rng(stable_hash(seed, "joined"))
    found: dict[tuple[str, str], JoinedPair] = {}
    for _ in range(_TRIES * count):
        if len(found) == count:
            break
        names = tuple(domains[row] for row in generator.choice(len(domains), 2, replace=False))
        first, second = (texts[name][generator.integers(len(texts[name]))] for name in names)
        sides = (f"{first[0]} {second[0]}", f"{first[1]} {second[1]}")
        lengths = [len(text.split()) for text in (*first, *second)]
        if min(lengths) >= _LEAST_WORDS and all(len(side.split()) <= max_words for side in sides):
            found.setdefault(sides, JoinedPair((names[0], names[1]), sides))
    if len(found) < count:
        raise InputError(
            f"evaluate: domain_switch: {count} are more than the test sets give, which have {len(found)} of "
            f"{_LEAST_WORDS} words a sentence and {max_words} a pair; ask for fewer"
        )
    return list(found.values())


def write_pairs(stem: Path, langs: tuple[str, str], pairs: Sequence[JoinedPair]) -> None:
    """Write ``STEM.LANG`` and, a line each, the two domains of every pair: ``STEM.domains.txt``."""
    for side, lang in enumerate(langs):
        write_lines(stem.with_name(f"{stem.name}.{lang}"), [pair.texts[side] for pair in pairs])
    write_lines(stem.with_name(f"{stem.name}.domains.txt"), [" ".join(pair.domains) for pair in pairs])
