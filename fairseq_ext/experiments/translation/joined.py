"""Sentences whose domain changes in the middle: two test sentences of different domains joined, and what gates make
of them.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from fairseq_ext.corpora.text_files import count_lines, read_lines, read_parallel, stream_lines, write_lines
from fairseq_ext.domains.names import DOMAINS_FILE, read_domain_names
from fairseq_ext.experiments.translation.experiment import JOINED
from fairseq_ext.inputs.errors import InputError
from fairseq_ext.text.split import stable_hash

JOINED_FILE = "joined.json"
NUM_PARTS = 10  # of a translation's length
_LEAST_WORDS = 4  # of a sentence that is joined, on both sides
_TRIES = 200  # for each pair that is wanted
# Pieces of a translation that a picture has room for.
_SHOWN = range(10, 31)


@dataclass(frozen=True)
class JoinedPair:
    """Two sentence pairs in a row.

    Attributes:
        domains: of the first and the second.
        texts: source and target.
    """

    domains: tuple[str, str]
    texts: tuple[str, str]


def draw_pairs(splits: Path, langs: tuple[str, str], count: int, max_words: int, seed: int) -> list[JoinedPair]:
    """Join test sentences of two domains, drawn by the seed; a domain comes as often as any other.

    Args:
        splits: folder with ``DOMAIN/test.LANG``.
        langs: source and target.
        count: how many.
        max_words: of a joined side, as of a sentence of the corpora.
        seed: of the draw.

    Raises:
        InputError: if there are not two domains, or not so many sentences that are short enough.
    """
    domains = read_domain_names(splits / DOMAINS_FILE)
    if len(domains) < 2:
        raise InputError(f"{splits / DOMAINS_FILE}: evaluate: joined joins two domains, and there is one; leave it out")
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
            f"evaluate: joined: {count} are more than the test sets give, which have {len(found)} of {_LEAST_WORDS} "
            f"words a sentence and {max_words} a pair; ask for fewer"
        )
    return list(found.values())


def domains_file(sets: Path) -> Path:
    """Where the two domains of every joined pair lie, a line each."""
    return sets / f"{JOINED}.domains.txt"


def write_pairs(sets: Path, langs: tuple[str, str], pairs: Sequence[JoinedPair]) -> None:
    """Write ``JOINED.LANG`` and the domains."""
    for side, lang in enumerate(langs):
        write_lines(sets / f"{JOINED}.{lang}", [pair.texts[side] for pair in pairs])
    write_lines(domains_file(sets), [" ".join(pair.domains) for pair in pairs])


def write_joined(folder: Path, paths: Mapping[str, Path], domains: Sequence[str], sets: Path, lang: str) -> None:
    """Write ``joined.json``: by run how the gates' weights move from one domain to the other, and some sentences.

    Args:
        folder: where to write.
        paths: by run the folder of its translations of the sets, with ``gates.jsonl`` and ``interactive.txt``.
        domains: D names.
        sets: folder of the sets.
        lang: the source language.
    """
    pairs = [line.split() for line in read_lines(domains_file(sets))]
    sources = read_lines(sets / f"{JOINED}.{lang}")
    # Sets are translated in the order of their names.
    names = sorted(path.name.removesuffix(f".{lang}") for path in sets.glob(f"*.{lang}"))
    first = sum(count_lines(sets / f"{name}.{lang}") for name in names[: names.index(JOINED)])
    record = {}
    for run, path in paths.items():
        found = list(_sentences(path, pairs, sources, domains, first))
        record[run] = {"domains": list(domains), **_summarise(found, domains), "shown": _shown(found)}
    (folder / JOINED_FILE).write_text(json.dumps(record, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def _sentences(
    folder: Path, pairs: Sequence[Sequence[str]], sources: Sequence[str], domains: Sequence[str], first: int
) -> Iterator[dict[str, Any]]:
    """Each joined sentence with its pieces and weights: ``encoder`` D, averaged over layers, ``tokens`` T×D.

    Raises:
        InputError: naming the file and line that holds no gates, or a sentence without.
    """
    path, gates = folder / "gates.jsonl", {}
    for number, line in enumerate(stream_lines(path), start=1):
        try:
            entry = json.loads(line)
            encoder, tokens = (np.array(entry[key], dtype=np.float64) for key in ("encoder", "tokens"))
            if not encoder.shape[1:] == tokens.shape[1:] == (len(domains),):
                raise ValueError(f"not {len(domains)} weights")
            gates[int(entry["id"])] = encoder.mean(0), tokens
        except (ValueError, KeyError, TypeError, RecursionError, OverflowError) as error:
            raise InputError(f"{path}, line {number}: holds no gates by token ({error}); translate it again") from None
    pieces = _pieces(folder / "interactive.txt")
    for row, (names, source) in enumerate(zip(pairs, sources, strict=True)):
        if first + row not in gates or first + row not in pieces:
            raise InputError(f"{path}: sentence {row + 1} of {JOINED} is missing; translate it again")
        encoder, tokens = gates[first + row]
        own = pieces[first + row]
        yield {"pair": names, "source": source, "pieces": own, "encoder": encoder, "tokens": tokens[: len(own)]}


def _pieces(path: Path) -> dict[int, list[str]]:
    """The pieces of every translation, as fairseq-interactive printed them."""
    found: dict[int, list[str]] = {}
    for line in stream_lines(path):
        if line.startswith("H-"):
            number, _, text = line[2:].rstrip("\n").split("\t", 2)
            found.setdefault(int(number), text.split(" "))
    return found


def _summarise(sentences: Sequence[Mapping[str, Any]], domains: Sequence[str]) -> dict[str, Any]:
    """Mean weights of the first, the second and all other domains, by part of the translation and in the encoder."""
    by_part = np.zeros((NUM_PARTS, 2))
    encoder = np.zeros(2)
    for sentence in sentences:
        rows = [domains.index(name) for name in sentence["pair"]]
        tokens = sentence["tokens"][:, rows]  # T×2
        places = (np.arange(NUM_PARTS) + 0.5) / NUM_PARTS * len(tokens)
        by_part += tokens[places.astype(int)]
        encoder += sentence["encoder"][rows]
    count = max(len(sentences), 1)
    weights = [[*row, 1 - sum(row)] for row in (by_part / count).tolist()]
    whole = [*(encoder / count).tolist(), 1 - float(encoder.sum()) / count]
    return {
        "sentences": len(sentences),
        "by_part": [[round(value, 4) for value in row] for row in weights],
        "encoder": [round(value, 4) for value in whole],
    }


def _shown(sentences: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The first sentence of every pair of domains that a picture has room for, in the order of the set."""
    found: dict[frozenset[str], dict[str, Any]] = {}
    for sentence in sentences:
        if len(sentence["pieces"]) in _SHOWN:
            weights = {key: sentence[key].round(4).tolist() for key in ("encoder", "tokens")}
            texts = {key: sentence[key] for key in ("pair", "source", "pieces")}
            found.setdefault(frozenset(sentence["pair"]), {**texts, **weights})
    return list(found.values())
