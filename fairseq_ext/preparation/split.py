"""Held-out sets that nothing in training can give away.

The unit is the *normalised source*: a sentence in compatibility form, case folded, digits
equalled. One that is held out in any domain is absent from the training text of all domains, since
the same message often occurs in several products with different translations.
"""

from __future__ import annotations

import hashlib
import re
import sys
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from fairseq_ext.domains.names import DOMAINS_FILE, read_domain_names
from fairseq_ext.errors import InputError
from fairseq_ext.preparation.config import Split
from fairseq_ext.preparation.corpora import Pair, collapse, read_parallel, write_lines

SPLITS = ("train", "valid", "test")
HELD_OUT = ("valid", "test")
_DIGITS = re.compile(r"\d+")


@dataclass
class DomainSplit:
    """One domain's three sets; ``too_long`` and ``shared`` count the pairs in none of them."""

    train: list[Pair]
    valid: list[Pair]
    test: list[Pair]
    too_long: int = 0
    shared: int = 0


def normalise_source(text: str) -> str:
    """Map sentences that give each other away to one key: NFKC, case, white space, numbers."""
    text = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).casefold())
    return _DIGITS.sub("0", collapse(text))


def stable_hash(seed: int, *texts: str) -> int:
    """A 64-bit hash that is the same in every process and on every machine."""
    digest = hashlib.blake2b("\0".join((str(seed), *texts)).encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big")


def split_corpora(corpora: Mapping[str, Sequence[Pair]], options: Split, seed: int) -> dict[str, DomainSplit]:
    """Split all domains at once.

    Which sources are held out follows from their seeded hashes, so it depends neither on the order
    of the lines nor on how often a source occurs. A source of several domains has one hash, so it
    tends to be held out in all of them: the test sets then hold it with each product's translation.

    Args:
        corpora: pairs by domain.
        options: number of held-out pairs, all with different sources, and the longest sentence kept.
        seed: draws other sets.

    Raises:
        InputError: naming the first domain with too few different sources.
    """
    roles: dict[str, str] = {}
    short = {
        name: [pair for pair in corpora[name] if _num_words(pair) <= options.max_words] for name in sorted(corpora)
    }
    grouped = {name: _group(pairs) for name, pairs in short.items()}
    chosen = {name: _choose(name, groups, roles, options, seed) for name, groups in grouped.items()}
    splits = {}
    for name, keys in chosen.items():
        # In the corpus's own order.
        train = [pair for pair in short[name] if _key(pair) not in roles]
        if not train:
            raise InputError(f"{name}: nothing is left to train on; lower split.valid and split.test")
        valid, test = ([_draw(grouped[name][key], seed) for key in keys[role]] for role in HELD_OUT)
        too_long = len(corpora[name]) - len(short[name])
        shared = len(short[name]) - len(train) - len(valid) - len(test)
        splits[name] = DomainSplit(train, valid, test, too_long, shared)
    return splits


def write_splits(
    folder: Path,
    corpora: Mapping[str, tuple[Path, Path]],
    langs: tuple[str, str],
    *,
    options: Split,
    seed: int,
) -> None:
    """Read the corpora, split them and write ``DOMAIN/{train,valid,test}.LANG`` and ``domains.txt``.

    Args:
        folder: where to write.
        corpora: the two files of every domain.
        langs: source and target language, the files' suffixes.
        options: see :func:`split_corpora`.
        seed: likewise.
    """
    texts = {name: read_parallel(*paths) for name, paths in corpora.items()}
    splits = split_corpora(texts, options, seed)
    write_lines(folder / DOMAINS_FILE, sorted(splits))
    for name, split in sorted(splits.items()):
        for role in SPLITS:
            pairs = getattr(split, role)
            for side, lang in enumerate(langs):
                write_lines(folder / name / f"{role}.{lang}", (pair[side] for pair in pairs))
    _report(splits)
    check_splits(folder, langs, options)


def check_splits(folder: Path, langs: tuple[str, str], options: Split) -> None:
    """Read the written files again and make sure that nothing held out is known elsewhere.

    Raises:
        RuntimeError: if sizes are wrong or a normalised source is in two sets. This is never the
            user's fault.
    """
    sizes = {"valid": options.valid, "test": options.test}
    keys: dict[str, set[str]] = {role: set() for role in SPLITS}
    for name in read_domain_names(folder / DOMAINS_FILE):
        for role in SPLITS:
            pairs = read_parallel(*(folder / name / f"{role}.{lang}" for lang in langs))
            own = {_key(pair) for pair in pairs}
            keys[role] |= own
            if role in sizes and not len(own) == len(pairs) == sizes[role]:
                raise RuntimeError(f"{folder / name}: {len(own)} sources in {role}, not {sizes[role]}")
    for one, other in (("train", "valid"), ("train", "test"), ("valid", "test")):
        if common := keys[one] & keys[other]:
            raise RuntimeError(f"{folder}: {min(common)!r} is in both {one} and {other}")


def _group(pairs: Sequence[Pair]) -> dict[str, list[Pair]]:
    groups: dict[str, list[Pair]] = {}
    for pair in pairs:
        groups.setdefault(_key(pair), []).append(pair)
    return groups


def _choose(
    name: str, groups: Mapping[str, list[Pair]], roles: dict[str, str], options: Split, seed: int
) -> dict[str, list[str]]:
    """Pick a domain's held-out keys; ``roles``, shared by all domains, keeps each key in one role."""
    ordered = sorted(groups, key=lambda key: (stable_hash(seed, key), key))
    chosen: dict[str, list[str]] = {}
    for role, size in (("valid", options.valid), ("test", options.test)):
        free = [key for key in ordered if roles.get(key, role) == role]
        if len(free) < size:
            raise InputError(
                f"{name}: {len(groups)} different sources are too few for {options.valid} + {options.test} "
                "held-out pairs and training; lower split.valid and split.test or add text"
            )
        chosen[role] = free[:size]
        roles.update(dict.fromkeys(chosen[role], role))
    return chosen


def _draw(pairs: Sequence[Pair], seed: int) -> Pair:
    """Pick one of several translations of a source."""
    return min(pairs, key=lambda pair: (stable_hash(seed, *pair), pair))


def _key(pair: Pair) -> str:
    return normalise_source(pair.source)


def _num_words(pair: Pair) -> int:
    return max(len(text.split()) for text in pair)


def _report(splits: Mapping[str, DomainSplit]) -> None:
    header = f"{'domain':<16}{'train':>10}{'valid':>8}{'test':>8}{'too long':>10}{'held out elsewhere':>20}"
    rows = [
        f"{name:<16}{len(split.train):>10}{len(split.valid):>8}{len(split.test):>8}"
        f"{split.too_long:>10}{split.shared:>20}"
        for name, split in sorted(splits.items())
    ]
    total = sum(len(split.train) for split in splits.values())
    print("\n".join([header, *rows, f"{'sum':<16}{total:>10}"]), file=sys.stderr)
