"""From imported to clean corpora: normalise, filter, drop repetitions, and account for every pair.

Every block of pairs is a task of its own (:mod:`fairseq_ext.engine.tasks`). Putting the blocks
together again, in the corpus's order, is all that one process does alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import repeat
from pathlib import Path
from typing import IO, Annotated, Any, Literal

import numpy as np
from pydantic import Field, create_model

from fairseq_ext.cleaning.agreement import Agreement
from fairseq_ext.cleaning.characters import Characters
from fairseq_ext.cleaning.completeness import Completeness
from fairseq_ext.cleaning.deduplicate import find_repeats, pair_keys
from fairseq_ext.cleaning.dictionary import Dictionary
from fairseq_ext.cleaning.filter import Batch, Filter, Learned, run_filters
from fairseq_ext.cleaning.filters import Empty, Encoding, Identical, Length, LengthRatio, LongWord
from fairseq_ext.cleaning.language_id import LanguageId
from fairseq_ext.cleaning.report import Drop, Tally, write_cleaning_report
from fairseq_ext.corpora.blocks import load_index, num_blocks, read_block
from fairseq_ext.corpora.files import open_binary
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


@dataclass(frozen=True)
class CleanBlock:
    """The task that cleans one block; ``num_blocks`` are those of each domain, in the order of the tasks."""

    corpora: Path
    num_blocks: Mapping[str, int]
    langs: tuple[str, str]
    cleaning: Cleaning
    learned: Path | None

    def __call__(self, index: int, output: Path) -> None:
        """Clean the block of this number, counted over all domains, into an empty directory."""
        name, block = [(name, block) for name, count in self.num_blocks.items() for block in range(count)][index]
        raw = read_block(self.corpora, name, self.langs, block)
        pairs = normalise_pairs(raw, self.langs, self.cleaning.normalise)
        accepted, rejected = run_filters(self.cleaning.filters, Batch(pairs, self.langs, Learned(self.learned)))
        # Text in corpora is collapsed, so neither tabs nor line feeds occur in it.
        rows = ("\t".join((*rejected.get(row, _KEPT), *pair)) for row, pair in enumerate(pairs))
        write_lines(output / _ROWS, rows)
        if self.cleaning.deduplicate:
            np.save(output / _KEYS, pair_keys((pairs[row] for row in accepted), self.cleaning.deduplicate))
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
    sizes = {name: num_blocks(index) for name, index in indices.items()}
    task = CleanBlock(corpora.resolve(), sizes, langs, cleaning, learned and learned.resolve())
    count = sum(sizes.values())
    run_tasks(task, folder / TASKS_DIR, count, engine, "clean")
    blocks = (task_output(folder / TASKS_DIR, index) for index in range(count))
    tallies = {}
    for name, size in sizes.items():
        tallies[name] = Tally(indices[name]["tally"])
        _assemble(folder, name, langs, [next(blocks) for _ in range(size)], cleaning, tallies[name])
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
    repeats = _find_repeats(blocks, cleaning)
    line = 0
    with ExitStack() as stack:
        source, target = (stack.enter_context((folder / f"{name}.{lang}").open("wb")) for lang in langs)
        rejected_file = stack.enter_context(_open_rejected(folder, name)) if cleaning.write_rejected else None
        for block in blocks:
            first, drops = line, []
            for line, row in enumerate(_read_rows(block), start=first + 1):
                drop = Drop(line, *row)
                if not drop.filter and not next(repeats):
                    source.write(f"{drop.source}\n".encode())
                    target.write(f"{drop.target}\n".encode())
                else:
                    drops.append(drop if drop.filter else drop._replace(filter=REPEATED, reason=_REPEATS))
            changed = int((block / _CHANGED).read_text(encoding="ascii"))
            pairs = line - first
            tally.add_block({"pairs": pairs, "changed": changed, "kept": pairs - len(drops)}, drops)
            if rejected_file:
                rejected_file.writelines(("\t".join(map(str, drop)) + "\n").encode() for drop in drops)
    if not tally.counts["kept"]:
        raise InputError(f"{name}: no pair passed ({tally.summary()}); loosen clean.filters")


def _read_rows(block: Path) -> Iterator[list[str]]:
    with (block / _ROWS).open(encoding="utf-8", newline="\n") as file:
        for row in file:
            yield row.removesuffix("\n").split("\t")


def _find_repeats(blocks: Sequence[Path], cleaning: Cleaning) -> Iterator[bool]:
    """Of each pair that the filters kept, whether it repeats an earlier one of the domain."""
    if cleaning.deduplicate is None:
        return repeat(False)
    return iter(find_repeats([np.load(block / _KEYS, mmap_mode="r") for block in blocks]))


@contextmanager
def _open_rejected(folder: Path, name: str) -> Iterator[IO[bytes]]:
    (folder / "rejected").mkdir(exist_ok=True)
    with open_binary(folder / "rejected" / f"{name}.tsv.gz", "wb") as file:
        file.write(("\t".join(Drop._fields) + "\n").encode())
        yield file
