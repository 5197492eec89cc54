"""Held-out sets that do not overlap with training text, drawn in bounded memory.

The unit is the *normalised source*: a sentence in compatibility form, case folded, without invisible characters, with
each number replaced by 0. Sources held out in one domain are absent from the training text of all domains, since the
same message often occurs in several products with different translations.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from tqdm import tqdm

from fairseq_ext.base.domain_names import DOMAINS_FILE
from fairseq_ext.base.errors import InputError
from fairseq_ext.base.sections import Count, Section
from fairseq_ext.text.folded_text import fold
from fairseq_ext.text.text_files import Pair, stream_parallel, write_lines, write_parallel

SPLITS = ("train", "valid", "test")
HELD_OUT = ("valid", "test")
# Table of the set sizes of each domain, in pairs or lines.
SIZES_FILE = "sizes.txt"
# Faster than \d+, whose first character the regex engine searches for more slowly.
_DIGITS = re.compile(r"\d\d*")


class Split(Section):
    """Sizes of the held-out sets (pairs per domain) and the longest sentence kept (words)."""

    valid: Count = 1000
    test: Count = 1000
    max_words: Count = 250


def normalise_source(text: str) -> str:
    """Return a key that is the same for sentences that fold to the same text or differ only in numbers."""
    return _DIGITS.sub("0", fold(text))


def stable_hash(seed: int, *texts: str) -> int:
    """Return a 64-bit hash that is the same in all processes and on all machines."""
    digest = hashlib.blake2b("\0".join((str(seed), *texts)).encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big")


def write_splits(
    folder: Path,
    corpora: Mapping[str, tuple[Path, Path]],
    langs: tuple[str, str],
    *,
    options: Split,
    seed: int,
) -> str:
    """Split the corpora, write ``DOMAIN/{train,valid,test}.LANG`` and ``domains.txt``, and return a summary.

    The sources with the smallest seeded hashes are held out, independently of the order of lines and of how often a
    source occurs. Its hash is the same in all domains, so it tends to be held out in all of them: the test sets then
    contain the translation of each domain.

    The corpora, two files per domain, are read twice: first to choose the held-out sources, then to write the sets.
    Only held-out sources are kept in memory.
    """
    roles: dict[str, str] = {}
    held_out = {}
    for name, paths in sorted(corpora.items()):
        pairs = _progress(stream_parallel(*paths), f"hold out {name}")
        keys = (_key(pair) for pair in pairs if _num_words(pair) <= options.max_words)
        held_out[name] = _choose(name, keys, roles, options, seed)
    write_lines(folder / DOMAINS_FILE, held_out)
    counts: dict[str, Counter[str]] = {}
    for name, chosen in held_out.items():
        drawn: dict[str, Pair] = {}
        counts[name] = Counter()
        pairs = _progress(stream_parallel(*corpora[name], quiet=True), f"split {name}")
        train = _training_pairs(pairs, roles, drawn, counts[name], options, seed)
        write_parallel(*_files(folder / name, "train", langs), train)
        if not counts[name]["train"]:
            raise InputError(f"{name}: has no training pairs; lower split.valid and split.test")
        for role, sources in chosen.items():
            write_parallel(*_files(folder / name, role, langs), [drawn[key] for key in sources])
    _write_table(folder, counts, options)
    train_pairs, too_long = (sum(count[key] for count in counts.values()) for key in ("train", "too long"))
    return (
        f"{train_pairs:,} training pairs; for each of {len(counts)} domains {options.valid} validation and "
        f"{options.test} test pairs; {too_long:,} pairs were too long"
    )


def _choose(name: str, keys: Iterable[str], roles: dict[str, str], options: Split, seed: int) -> dict[str, list[str]]:
    """Choose a domain's held-out keys by role; ``roles``, shared by all domains, keeps each key in one role."""
    sizes = {"valid": options.valid, "test": options.test}
    # At most len(roles) keys are not free, so these contain all that can be chosen.
    ordered = _smallest(keys, sum(sizes.values()) + len(roles), seed)
    chosen: dict[str, list[str]] = {}
    for role, size in sizes.items():
        free = [key for key in ordered if roles.get(key, role) == role]
        if len(free) < size:
            raise InputError(
                f"{name}: {len(ordered)} different sources are too few for {options.valid} + {options.test} "
                "held-out pairs and training; lower split.valid and split.test or add text"
            )
        chosen[role] = free[:size]
        roles.update(dict.fromkeys(chosen[role], role))
    return chosen


def _smallest(keys: Iterable[str], size: int, seed: int) -> list[str]:
    """Return the ``size`` distinct keys with the smallest hashes, in order, keeping about twice as many in memory."""
    kept: set[tuple[int, str]] = set()
    largest: tuple[int, str] | None = None
    for key in keys:
        ranked = (stable_hash(seed, key), key)
        if largest is None or ranked < largest:
            kept.add(ranked)
            if len(kept) > 2 * size:
                kept = set(sorted(kept)[:size])
                largest = max(kept)
    return [key for _, key in sorted(kept)[:size]]


def _training_pairs(
    pairs: Iterable[Pair],
    roles: Mapping[str, str],
    drawn: dict[str, Pair],
    counts: Counter[str],
    options: Split,
    seed: int,
) -> Iterator[Pair]:
    """Yield training pairs in corpus order; collect held-out pairs in ``drawn``, and count all in ``counts``."""
    for pair in pairs:
        if _num_words(pair) > options.max_words:
            counts["too long"] += 1
        elif (key := _key(pair)) not in roles:
            counts["train"] += 1
            yield pair
        else:
            counts["held out"] += 1
            # Of several translations, keep the one with the smallest hash.
            candidates = drawn.get(key, pair), pair
            drawn[key] = min(candidates, key=lambda each: (stable_hash(seed, *each), each))


def _key(pair: Pair) -> str:
    return normalise_source(pair.source)


def _num_words(pair: Pair) -> int:
    # Single spaces separate the words of a pair.
    return max(pair.source.count(" "), pair.target.count(" ")) + 1


def _files(folder: Path, role: str, langs: tuple[str, str]) -> tuple[Path, Path]:
    return folder / f"{role}.{langs[0]}", folder / f"{role}.{langs[1]}"


def _progress(pairs: Iterator[Pair], label: str) -> Iterable[Pair]:
    return tqdm(pairs, desc=label, unit=" pairs", unit_scale=True, leave=False, disable=None)


def _write_table(folder: Path, counts: Mapping[str, Counter[str]], options: Split) -> None:
    """Write the set sizes of each domain; pairs whose source is held out elsewhere are in no set."""
    rows = [f"{'domain':<16}{'train':>10}{'valid':>8}{'test':>8}{'too long':>10}{'held out elsewhere':>20}"]
    for name, count in counts.items():
        elsewhere = count["held out"] - options.valid - options.test
        rows.append(
            f"{name:<16}{count['train']:>10}{options.valid:>8}{options.test:>8}{count['too long']:>10}{elsewhere:>20}"
        )
    write_lines(folder / SIZES_FILE, rows)
