"""Prepare text of a new domain, and of the old domains, as a fairseq data directory with the system's subwords."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from fairseq_ext.base.domain_names import DOMAINS_FILE
from fairseq_ext.base.errors import InputError
from fairseq_ext.base.jobs import Engine
from fairseq_ext.data.binarise import binarise
from fairseq_ext.serve.runtime.manifest import Manifest
from fairseq_ext.text.normalise import normalise_pairs
from fairseq_ext.text.split import normalise_source, stable_hash
from fairseq_ext.text.subwords import MODEL_FILE, encode_splits
from fairseq_ext.text.text_files import Pair, stream_parallel, write_lines, write_parallel

TRAIN, VALID = "train", "valid"
_MOST_HELD_OUT = 200

# Treatment of gates when a domain is added.
GUARDED, REFIT = "guarded", "refit"


@dataclass(frozen=True)
class Training:
    """Training text and settings of a new domain."""

    text: Path | None = None  # path prefix of its two files
    old_text: Path | None = None  # folder with text of the old domains, for fitting gates
    gates: str = GUARDED  # for a gated system: GUARDED or REFIT
    max_update: int | None = None  # updates of the adapter; None for a number in proportion to the text
    gate_updates: int = 200
    valid: int | None = None  # number of pairs held out for validation, per domain; None for a fifth, at most 200
    old_pairs: int = 1000  # number of pairs per old domain, including held-out ones
    max_words: int = 80  # maximum length of a sentence
    seed: int = 1
    extra: Sequence[str] = ()  # additional options of fairseq-train, for adapter and gates


def new_pairs(prefix: Path, languages: tuple[str, str]) -> list[Pair]:
    """Read the pairs of ``PREFIX.SRC`` and ``PREFIX.TGT``."""
    source, target = (prefix.with_name(f"{prefix.name}.{lang}") for lang in languages)
    return list(stream_parallel(source, target))


def old_pairs(
    folder: Path, domains: Sequence[str], languages: tuple[str, str], training: Training
) -> dict[str, list[Pair]]:
    """Return a sample of each domain's pairs.

    They are read from ``DOMAIN.LANG`` or, as in an experiment's splits, ``DOMAIN/train.LANG``.
    """
    found = {}
    for name in domains:
        prefixes = [folder / name, folder / name / TRAIN]
        prefix = next((p for p in prefixes if p.with_name(f"{p.name}.{languages[0]}").is_file()), None)
        if prefix is None:
            raise InputError(
                f"{folder}: has no text of the domain {name}; add {name}.{languages[0]} or "
                f"{name}/{TRAIN}.{languages[0]}, and the same in {languages[1]}"
            )
        pairs = new_pairs(prefix, languages)
        found[name] = sorted(pairs, key=lambda pair: (stable_hash(training.seed, *pair), pair))[: training.old_pairs]
    return found


def write_data(
    folder: Path,
    system: Path,
    manifest: Manifest,
    domains: Sequence[str],
    texts: Mapping[str, Mapping[str, Sequence[Pair]]],
) -> None:
    """Segment and binarise the texts of some domains, ``TRAIN`` and ``VALID`` of each, into a data directory."""
    if not (system / MODEL_FILE).is_file():
        raise InputError(f"{system / MODEL_FILE}: not found; new text can only be added to a system with subwords")
    langs, plain, encoded = manifest.languages, folder / "text", folder / "encoded"
    for name, parts in texts.items():
        for part, pairs in parts.items():
            files = [plain / name / f"{part}.{lang}" for lang in langs]
            write_parallel(files[0], files[1], normalise_pairs(pairs, langs, manifest.text))
    write_lines(plain / DOMAINS_FILE, sorted(texts))
    encode_splits(encoded, plain, system, langs, (TRAIN, VALID))
    binarise(folder, encoded, system, langs, Engine(workers=1), (TRAIN, VALID))
    write_lines(folder / DOMAINS_FILE, domains)
    for made in (plain, encoded):
        shutil.rmtree(made)


def split_pairs(name: str, pairs: Sequence[Pair], training: Training) -> dict[str, list[Pair]]:
    """Split pairs into training and validation sets. No spelling of a held-out source is in the training set."""
    kept = [pair for pair in pairs if max(len(side.split()) for side in pair) <= training.max_words]
    sources = {normalise_source(pair.source) for pair in kept}
    keys = sorted(sources, key=lambda key: (stable_hash(training.seed, key), key))
    number = training.valid or max(1, min(_MOST_HELD_OUT, len(keys) // 5))
    if len(keys) <= number:
        raise InputError(
            f"{name}: has only {len(keys)} different sources of up to {training.max_words} words, but "
            f"{number} are held out; give more text, or a smaller --valid"
        )
    held_out = set(keys[:number])
    valid = {key: pair for pair in kept if (key := normalise_source(pair.source)) in held_out}
    train = [pair for pair in kept if normalise_source(pair.source) not in held_out]
    print(f"{name}: {len(train)} pairs to train on, {len(valid)} held out", file=sys.stderr)
    return {TRAIN: train, VALID: list(valid.values())}
