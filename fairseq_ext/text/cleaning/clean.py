"""Clean imported corpora: normalise, filter, drop repetitions, and count every dropped pair.

Each block of pairs is a separate job (:mod:`fairseq_ext.base.jobs`); only the concatenation of the blocks in corpus
order runs in a single process. Repeated pairs are found by 128-bit hashes of their folded text. Hashes are stored on
disk by block and sorted in buckets, so that memory grows by only one byte per pair.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from functools import partial
from itertools import repeat
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import Field, create_model

from fairseq_ext.base.errors import InputError
from fairseq_ext.base.jobs import JOBS_DIR, Engine, job_output, run_jobs
from fairseq_ext.base.sections import EMPTY_AS_DEFAULTS, Section
from fairseq_ext.text.blocks import load_index, read_block
from fairseq_ext.text.cleaning.agreement import Agreement
from fairseq_ext.text.cleaning.characters import Characters
from fairseq_ext.text.cleaning.completeness import Completeness
from fairseq_ext.text.cleaning.dictionary import Dictionary
from fairseq_ext.text.cleaning.filters import (
    SIDES,
    Batch,
    Empty,
    Encoding,
    Filter,
    Identical,
    Length,
    LengthRatio,
    LongWord,
    run_filters,
)
from fairseq_ext.text.cleaning.language_id import LanguageId
from fairseq_ext.text.cleaning.tally import Drop, Tally
from fairseq_ext.text.files import open_binary
from fairseq_ext.text.folded_text import fold
from fairseq_ext.text.normalise import Normalise, normalise_pairs
from fairseq_ext.text.text_files import Pair, write_lines

# Cheapest first: pairs dropped by a filter do not reach later ones.
FILTERS: dict[str, type[Filter]] = {
    "empty": Empty,
    "length": Length,
    "length_ratio": LengthRatio,
    "long_words": LongWord,
    "characters": Characters,
    "encoding": Encoding,
    "identical": Identical,
    "agreement": Agreement,
    "completeness": Completeness,
    "language": LanguageId,
    "dictionary": Dictionary,
}
REPEATED = "repeated"
_REPEATS = "repeats an earlier pair"
_KEPT = ("", "")
_BUCKET_PAIRS = 2_000_000
# Files of a block: each pair with the filter that dropped it and the reason; keys of kept pairs; number of pairs
# changed by normalisation.
_ROWS, _KEYS, _CHANGED = "rows.tsv", "keys.npy", "changed.txt"


def _filters_section() -> Any:
    fields: dict[str, Any] = {name: (Annotated[kind, EMPTY_AS_DEFAULTS], None) for name, kind in FILTERS.items()}
    return create_model("Filters", __base__=Section, __doc__="Filters of pairs, by name.", **fields)


Filters: Any = _filters_section()


class Cleaning(Section):
    """Options of cleaning, which is done before the split."""

    normalise: Annotated[Normalise | None, EMPTY_AS_DEFAULTS] = None
    """Normalisation of characters and punctuation; by default none."""
    chosen: Annotated[Filters, EMPTY_AS_DEFAULTS] = Field(default=Filters(), alias="filters")
    """Filters of pairs; pairs with an empty side are always dropped."""
    deduplicate: Literal["pair", "source", "target"] | None = None
    """Drop a pair if its source, target or both repeat an earlier pair of its domain; by default repetitions stay."""
    write_rejected: bool = False
    """Whether to write dropped pairs with line and reason to ``rejected/DOMAIN.tsv.gz``."""

    @property
    def filters(self) -> dict[str, Filter]:
        """The chosen filters by name, in the order of :data:`FILTERS`."""
        chosen = {name: getattr(self.chosen, name) for name in FILTERS} | {"empty": Empty()}
        return {name: each for name, each in chosen.items() if each is not None}

    @property
    def recorded(self) -> dict[str, Any]:
        """The options recorded to recognise a finished step."""
        filters = {name: each.model_dump() for name, each in self.filters.items()}
        return {**self.model_dump(exclude={"chosen"}), "filters": filters}

    def check(self, langs: tuple[str, str]) -> None:
        """Raise InputError if a filter does not support these languages."""
        for each in self.filters.values():
            each.check(langs)


def clean_block(
    corpora: Path,
    blocks: Sequence[tuple[str, int]],
    langs: tuple[str, str],
    cleaning: Cleaning,
    learned: Path | None,
    index: int,
    output: Path,
) -> None:
    """Clean block ``blocks[index]``, given by domain and number, and write it to an empty directory."""
    raw = read_block(corpora, blocks[index][0], langs, blocks[index][1])
    pairs = normalise_pairs(raw, langs, cleaning.normalise)
    accepted, rejected = run_filters(cleaning.filters, Batch(pairs, langs, learned))
    # White space is collapsed, so text contains no tabs or line feeds.
    write_lines(output / _ROWS, ("\t".join((*rejected.get(row, _KEPT), *pair)) for row, pair in enumerate(pairs)))
    if cleaning.deduplicate:
        np.save(output / _KEYS, pair_keys((pairs[row] for row in accepted), cleaning.deduplicate))
    changed = sum(one != other for one, other in zip(raw, pairs, strict=True))
    (output / _CHANGED).write_text(str(changed), encoding="ascii")


def clean_corpora(
    folder: Path,
    corpora: Path,
    domains: Sequence[str],
    langs: tuple[str, str],
    cleaning: Cleaning,
    engine: Engine,
    learned: Path | None = None,
) -> dict[str, Tally]:
    """Clean all domains of a folder of imported corpora, and return their counts.

    Writes ``DOMAIN.LANG`` and, if requested, ``rejected/DOMAIN.tsv.gz``. An interrupted run is resumed from its jobs in
    the folder, which the caller removes at the end. ``learned`` is the output folder of
    :func:`~fairseq_ext.text.cleaning.learn.learn_from_corpora`, if a filter needs it.
    """
    cleaning.check(langs)
    indices = {name: load_index(corpora, name) for name in domains}
    blocks = [(name, number) for name, index in indices.items() for number in range(len(index["offsets"]))]
    job = partial(clean_block, corpora.resolve(), blocks, langs, cleaning, learned and learned.resolve())
    run_jobs(job, folder / JOBS_DIR, len(blocks), engine, "clean")
    tallies = {name: Tally(index["tally"]) for name, index in indices.items()}
    for name, tally in tallies.items():
        own = [job_output(folder / JOBS_DIR, row) for row, (domain, _) in enumerate(blocks) if domain == name]
        _assemble(folder, name, langs, own, cleaning, tally)
    return tallies


def _assemble(
    folder: Path, name: str, langs: tuple[str, str], blocks: Sequence[Path], cleaning: Cleaning, tally: Tally
) -> None:
    """Write a domain's corpus from its blocks, without repetitions, and count kept and dropped pairs."""
    # For each pair kept by the filters, whether it repeats an earlier one.
    repeats: Iterator[bool] = repeat(False)
    if cleaning.deduplicate:
        repeats = iter(find_repeats([np.load(block / _KEYS, mmap_mode="r") for block in blocks]))
    line = 0
    with ExitStack() as stack:
        source, target = (stack.enter_context((folder / f"{name}.{lang}").open("wb")) for lang in langs)
        rejected = None
        if cleaning.write_rejected:
            (folder / "rejected").mkdir(exist_ok=True)
            rejected = stack.enter_context(open_binary(folder / "rejected" / f"{name}.tsv.gz", "wb"))
            rejected.write(("\t".join(Drop._fields) + "\n").encode())
        for block in blocks:
            first, drops = line, []
            with (block / _ROWS).open(encoding="utf-8", newline="\n") as rows:
                for line, row in enumerate(rows, start=first + 1):
                    drop = Drop(line, *row.removesuffix("\n").split("\t"))
                    if not drop.filter and not next(repeats):
                        source.write(f"{drop.source}\n".encode())
                        target.write(f"{drop.target}\n".encode())
                    else:
                        drops.append(drop if drop.filter else drop._replace(filter=REPEATED, reason=_REPEATS))
            changed = int((block / _CHANGED).read_text(encoding="ascii"))
            pairs = line - first
            tally.add_block({"pairs": pairs, "changed": changed, "kept": pairs - len(drops)}, drops)
            if rejected:
                rejected.writelines(("\t".join(map(str, drop)) + "\n").encode() for drop in drops)
    if not tally.counts["kept"]:
        raise InputError(f"{name}: all pairs were dropped ({tally.summary()}); relax clean.filters")


def pair_keys(pairs: Iterable[Pair], by: str) -> np.ndarray:
    """Return hashes of the folded ``pair``, ``source`` or ``target`` of each pair. Shape: N×2 (uint64)"""
    if by == "pair":
        texts = (f"{fold(source)}\0{fold(target)}" for source, target in pairs)
    else:
        side = SIDES.index(by)
        texts = (fold(pair[side]) for pair in pairs)
    digests = (hashlib.blake2b(text.encode(), digest_size=16).digest() for text in texts)
    return np.frombuffer(b"".join(digests), dtype="<u8").reshape(-1, 2)


def find_repeats(blocks: Sequence[np.ndarray], bucket_pairs: int = _BUCKET_PAIRS) -> np.ndarray:
    """Return whether each pair repeats an earlier one.

    Args:
        blocks: keys in corpus order, in arrays of any length; may be memory-mapped.
        bucket_pairs: approximate number of keys sorted at a time.

    Shape:
        result: N (bool), for all blocks together
    """
    sizes = [len(block) for block in blocks]
    starts = np.cumsum([0, *sizes])
    repeats = np.zeros(int(starts[-1]), dtype=bool)
    num_buckets = -(-len(repeats) // bucket_pairs)
    for bucket in range(num_buckets):
        chosen = [np.flatnonzero(block[:, 0] % num_buckets == bucket) for block in blocks]
        keys = np.concatenate([block[rows] for block, rows in zip(blocks, chosen, strict=True)])
        positions = np.concatenate([rows + start for rows, start in zip(chosen, starts, strict=False)])
        # The sort is stable, so that the first of equal keys is the first in the corpus.
        order = np.lexsort((keys[:, 1], keys[:, 0]))
        equal = (keys[order[1:]] == keys[order[:-1]]).all(axis=1)
        repeats[positions[order[1:][equal]]] = True
    return repeats
