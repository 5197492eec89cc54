"""From imported to clean corpora: normalise, filter, drop repetitions, and account for every pair.

Every block of pairs is a task of its own (:mod:`fairseq_ext.engine.tasks`). Putting the blocks together again, in the
corpus's order, is all that one process does alone. Repeated pairs are found by 128-bit hashes of their folded text,
which are kept on disk by block and sorted bucket by bucket, so that memory does not grow with the corpus, but for one
byte a pair.
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

from fairseq_ext.cleaning.agreement import Agreement
from fairseq_ext.cleaning.characters import Characters
from fairseq_ext.cleaning.completeness import Completeness
from fairseq_ext.cleaning.dictionary import Dictionary
from fairseq_ext.cleaning.filters import (
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
from fairseq_ext.cleaning.language_id import LanguageId
from fairseq_ext.cleaning.report import Drop, Tally, write_cleaning_report
from fairseq_ext.corpora.blocks import load_index, num_blocks, read_block
from fairseq_ext.corpora.files import open_binary
from fairseq_ext.corpora.folded_text import fold
from fairseq_ext.corpora.normalise import Normalise, normalise_lines
from fairseq_ext.corpora.text_files import Pair, write_lines
from fairseq_ext.engine.tasks import TASKS_DIR, Engine, remove_tasks, run_tasks, task_output
from fairseq_ext.inputs.errors import InputError
from fairseq_ext.inputs.models import EMPTY_AS_DEFAULTS, Section

# Cheapest first: what an early filter drops costs a later one nothing.
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
# Of a block: each pair behind the filter that dropped it and why; keys of the others; how many normalisation changed.
_ROWS, _KEYS, _CHANGED = "rows.tsv", "keys.npy", "changed.txt"


def _filters_section() -> Any:
    fields: dict[str, Any] = {name: (Annotated[kind, EMPTY_AS_DEFAULTS], None) for name, kind in FILTERS.items()}
    return create_model("Filters", __base__=Section, __doc__="Filters of pairs, by name.", **fields)


Filters: Any = _filters_section()


class Cleaning(Section):
    """What is done to every pair before the split."""

    normalise: Annotated[Normalise | None, EMPTY_AS_DEFAULTS] = None
    """One spelling of characters and punctuation; without it nothing is changed."""
    chosen: Annotated[Filters, EMPTY_AS_DEFAULTS] = Field(default=Filters(), alias="filters")
    """What drops a pair; an empty side always does."""
    deduplicate: Literal["pair", "source", "target"] | None = None
    """What has to be equal for a pair to repeat an earlier one of its domain; without it repetitions stay."""
    write_rejected: bool = False
    """Whether to write every dropped pair with its line and reason to ``rejected/DOMAIN.tsv.gz``."""

    @property
    def filters(self) -> dict[str, Filter]:
        """By name, in the order of :data:`FILTERS`."""
        chosen = {name: getattr(self.chosen, name) for name in FILTERS} | {"empty": Empty()}
        return {name: each for name, each in chosen.items() if each is not None}

    @property
    def recorded(self) -> dict[str, Any]:
        """The options by which a finished step is recognised."""
        filters = {name: each.model_dump() for name, each in self.filters.items()}
        return {**self.model_dump(exclude={"chosen"}), "filters": filters}

    def check(self, langs: tuple[str, str]) -> None:
        """Raise InputError, before long work begins, if a filter cannot judge these languages."""
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
    """Clean the block of this index, given by its domain and number, into an empty directory."""
    raw = read_block(corpora, blocks[index][0], langs, blocks[index][1])
    pairs = normalise_pairs(raw, langs, cleaning.normalise)
    accepted, rejected = run_filters(cleaning.filters, Batch(pairs, langs, learned))
    # Text in corpora is collapsed, so neither tabs nor line feeds occur in it.
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
) -> str:
    """Clean all domains of a folder of imported corpora, report on it, and return what was done, for people.

    Writes ``DOMAIN.LANG``, the report and, if asked for, ``rejected/DOMAIN.tsv.gz``. An interrupted run is continued.
    ``learned`` is the folder of what the filters have learned, if they have to.
    """
    cleaning.check(langs)
    indices = {name: load_index(corpora, name) for name in domains}
    blocks = [(name, number) for name, index in indices.items() for number in range(num_blocks(index))]
    task = partial(clean_block, corpora.resolve(), blocks, langs, cleaning, learned and learned.resolve())
    run_tasks(task, folder / TASKS_DIR, len(blocks), engine, "clean")
    tallies = {name: Tally(index["tally"]) for name, index in indices.items()}
    for name, tally in tallies.items():
        own = [task_output(folder / TASKS_DIR, row) for row, (domain, _) in enumerate(blocks) if domain == name]
        _assemble(folder, name, langs, own, cleaning, tally)
    write_cleaning_report(folder, langs, _options(cleaning), tallies)
    remove_tasks(folder / TASKS_DIR)
    kept, pairs = (sum(tally.counts[key] for tally in tallies.values()) for key in ("kept", "pairs"))
    return f"kept {kept:,} of {pairs:,} pairs; report.html says what was dropped, and why"


def normalise_pairs(raw: Sequence[Pair], langs: tuple[str, str], options: Normalise | None) -> Sequence[Pair]:
    """Normalise both sides, if there are options to do so."""
    if options is None:
        return raw
    sides = [normalise_lines([pair[side] for pair in raw], lang, options) for side, lang in enumerate(langs)]
    return [Pair(*pair) for pair in zip(*sides, strict=True)]


def _options(cleaning: Cleaning) -> dict[str, Section | dict[str, str]]:
    """What the report says of the options: filters in their order, and what is not one."""
    options: dict[str, Section | dict[str, str]] = {**cleaning.filters}
    if cleaning.deduplicate:
        options[REPEATED] = {"by": cleaning.deduplicate}
    if cleaning.normalise:
        options["normalise"] = cleaning.normalise
    return options


def _assemble(
    folder: Path, name: str, langs: tuple[str, str], blocks: Sequence[Path], cleaning: Cleaning, tally: Tally
) -> None:
    """Write a domain's corpus from its blocks, without the repetitions, and count what happened to it."""
    # Of each pair that the filters kept, whether it repeats an earlier one.
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
        raise InputError(f"{name}: no pair passed ({tally.summary()}); loosen clean.filters")


def pair_keys(pairs: Iterable[Pair], by: str) -> np.ndarray:
    """Hashes, N×2 (uint64), that are equal where ``pair``, ``source`` or ``target`` of pairs repeat each other."""
    if by == "pair":
        texts = (f"{fold(source)}\0{fold(target)}" for source, target in pairs)
    else:
        side = SIDES.index(by)
        texts = (fold(pair[side]) for pair in pairs)
    digests = (hashlib.blake2b(text.encode(), digest_size=16).digest() for text in texts)
    return np.frombuffer(b"".join(digests), dtype="<u8").reshape(-1, 2)


def find_repeats(blocks: Sequence[np.ndarray], bucket_pairs: int = _BUCKET_PAIRS) -> np.ndarray:
    """Which pairs repeat an earlier one.

    Args:
        blocks: keys in the corpus's order, cut anywhere; memory-mapped files will do.
        bucket_pairs: about how many keys are sorted at a time.

    Shape:
        result: N (bool), of all blocks together
    """
    sizes = [len(block) for block in blocks]
    starts = np.cumsum([0, *sizes])
    repeats = np.zeros(int(starts[-1]), dtype=bool)
    num_buckets = -(-len(repeats) // bucket_pairs)
    for bucket in range(num_buckets):
        chosen = [np.flatnonzero(block[:, 0] % num_buckets == bucket) for block in blocks]
        keys = np.concatenate([block[rows] for block, rows in zip(blocks, chosen, strict=True)])
        positions = np.concatenate([rows + start for rows, start in zip(chosen, starts, strict=False)])
        # The sort is stable, so the first of equal keys stays the first in the corpus.
        order = np.lexsort((keys[:, 1], keys[:, 0]))
        equal = (keys[order[1:]] == keys[order[:-1]]).all(axis=1)
        repeats[positions[order[1:][equal]]] = True
    return repeats
