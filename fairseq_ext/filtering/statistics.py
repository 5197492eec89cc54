"""What cleaning counts, in a form that adds up: integers, and samples drawn by hash.

Whoever cleans a block of pairs describes it by a plain dictionary that JSON can hold; :func:`merge` adds
two of them up. Neither the order nor the cut into blocks makes a difference, so the report is the same
byte for byte whatever the number of workers.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypedDict

import numpy as np

from fairseq_ext.corpora.text_files import Pair

# E edges make E + 1 bins: bin i holds edges[i - 1] <= x < edges[i], the first and the last are open.
# Words: 0, 1-2, 3-4, …, 99-100, more.
WORD_EDGES: tuple[int, ...] = tuple(range(1, 102, 2))
# Of log2(target words / source words), from -3 to 3; a bin has equal lengths (0) in its middle.
RATIO_EDGES: tuple[float, ...] = tuple(step / 8 for step in range(-25, 26, 2))
MAX_SAMPLES = 5
MAX_CHARS = 300

# What is counted of a domain or of a part of it; :func:`empty_statistics` has all the keys.
Statistics = dict[str, Any]


class Sample(TypedDict):
    """A pair that a filter dropped; its texts are cut to ``MAX_CHARS`` characters."""

    line: int
    reason: str
    source: str
    target: str


def empty_statistics(langs: tuple[str, str], cascade: Sequence[str]) -> Statistics:
    """The statistics of no pairs: every key is there, and merging it changes nothing.

    Args:
        langs: source and target language.
        cascade: the filters and what else drops pairs, in their order.
    """
    none = np.zeros((0, 2), dtype=np.int64)
    return {
        "pairs": 0,
        "kept": 0,
        "changed_by_normalisation": 0,
        "rejected": dict.fromkeys(cascade, 0),
        "import": {},
        "words_before": word_histogram(none, langs),
        "words_after": word_histogram(none, langs),
        "ratio_before": ratio_histogram(none),
        "ratio_after": ratio_histogram(none),
        "languages": {lang: {} for lang in langs},
        "samples": {name: [] for name in cascade},
    }


def word_histogram(num_words: np.ndarray, langs: tuple[str, str]) -> dict[str, list[int]]:
    """Count the sides of each language by their length in words, see ``WORD_EDGES``.

    Shape:
        num_words: N×2; result: E + 1 counts a language
    """
    return {lang: _histogram(num_words[:, side], WORD_EDGES) for side, lang in enumerate(langs)}


def ratio_histogram(num_words: np.ndarray) -> list[int]:
    """Count pairs by log2(target words / source words), see ``RATIO_EDGES``; those with an empty side are left out.

    Shape:
        num_words: N×2; result: E + 1 counts
    """
    source, target = num_words[(num_words > 0).all(axis=1)].T
    # A quotient is rounded alike on every machine; a logarithm need not be.
    return _histogram(target / source, 2.0 ** np.array(RATIO_EDGES))


def make_sample(line: int, reason: str, pair: Pair) -> Sample:
    """Describe a dropped pair.

    Args:
        line: its line in the domain's corpus, from 1.
        reason: what the filter said.
        pair: its text.
    """
    return {"line": line, "reason": _cut(reason), "source": _cut(pair.source), "target": _cut(pair.target)}


def choose_samples(samples: Iterable[Sample]) -> list[Sample]:
    """Draw ``MAX_SAMPLES`` samples of different text, by line.

    The text's hash decides, so that neither their order nor what was drawn from parts before matters;
    of samples with the same text the first in the corpus counts.
    """
    by_hash: dict[int, Sample] = {}
    for sample in samples:
        key = _hash(sample)
        if key not in by_hash or sample["line"] < by_hash[key]["line"]:
            by_hash[key] = sample
    chosen = [by_hash[key] for key in sorted(by_hash)[:MAX_SAMPLES]]
    return sorted(chosen, key=lambda sample: sample["line"])


def merge(one: Statistics, other: Statistics) -> Statistics:
    """Add up the statistics of two parts of a domain; neither is changed.

    Raises:
        ValueError: if histograms have different bins.
    """
    return _add(one, other)


def make_report(
    langs: tuple[str, str],
    cascade: Sequence[str],
    options: Mapping[str, Mapping[str, Any]],
    domains: Mapping[str, Statistics],
) -> dict[str, Any]:
    """What the report file holds.

    Args:
        langs: source and target language.
        cascade: as in :func:`empty_statistics`.
        options: of each filter, its options.
        domains: of each domain, its statistics.
    """
    return {
        "langs": list(langs),
        "cascade": list(cascade),
        "options": {name: dict(values) for name, values in options.items()},
        "word_edges": list(WORD_EDGES),
        "ratio_edges": list(RATIO_EDGES),
        "domains": dict(domains),
    }


def _histogram(values: np.ndarray, edges: Sequence[float] | np.ndarray) -> list[int]:
    bins = np.searchsorted(edges, values, side="right")
    return np.bincount(bins, minlength=len(edges) + 1).tolist()


def _add(one: Any, other: Any) -> Any:
    if isinstance(one, dict):
        return {
            key: _add(one[key], other[key]) if key in one and key in other else one.get(key, other.get(key))
            for key in one | other
        }
    if not isinstance(one, list):
        return one + other
    if any(isinstance(item, dict) for item in one + other):
        return choose_samples(one + other)
    return [_add(*items) for items in zip(one, other, strict=True)]


def _cut(text: str) -> str:
    return text if len(text) <= MAX_CHARS else text[: MAX_CHARS - 1].rstrip() + "…"


def _hash(sample: Sample) -> int:
    # Of the text as it is kept, so that what was drawn from a part can be ranked again.
    text = f"{sample['source']}\0{sample['target']}".encode()
    return int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "big")
