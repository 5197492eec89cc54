"""From imported to clean corpora: normalise, filter, drop repetitions, and account for every pair.

Every block of pairs is a task of its own (:mod:`fairseq_ext.engine.tasks`). Putting the blocks
together again, in the corpus's order, is all that one process does alone.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import compress
from pathlib import Path
from typing import IO, Annotated, Any, Literal

import numpy as np
from pydantic import Field, create_model, model_validator

from fairseq_ext.cleaning.agreement import Agreement
from fairseq_ext.cleaning.characters import Characters
from fairseq_ext.cleaning.completeness import Completeness
from fairseq_ext.cleaning.deduplicate import find_repeats, pair_keys
from fairseq_ext.cleaning.dictionary import Dictionary
from fairseq_ext.cleaning.filter import Batch, Filter, Learned, run_filters
from fairseq_ext.cleaning.filters import Empty, Encoding, Identical, Length, LengthRatio, LongWord
from fairseq_ext.cleaning.language_id import LanguageId
from fairseq_ext.cleaning.normalise import Normalise, normalise_lines
from fairseq_ext.cleaning.report import Drop, Tally, write_cleaning_report
from fairseq_ext.corpora.blocks import first_pair, load_index, num_blocks, read_block
from fairseq_ext.corpora.files import open_binary
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
# Of a block: line numbers and keys of the kept pairs, whose text is in a file a language; dropped pairs; counts.
_LINES, _KEYS, _REJECTED, _COUNTS = "lines.npy", "keys.npy", "rejected.tsv", "counts.json"


def _filters_section() -> Any:
    fields: dict[str, Any] = {name: (Annotated[kind, EMPTY_AS_DEFAULTS], None) for name, kind in FILTERS.items()}
    return create_model("Filters", __base__=Section, __doc__="Filters of pairs, by name.", **fields)


Filters: Any = _filters_section()


class Cleaning(Section):
    """What is done to every pair before the split."""

    normalise: Normalise | None = None
    """One spelling of characters and punctuation; without it nothing is changed."""
    chosen: Annotated[Filters, EMPTY_AS_DEFAULTS] = Field(default=Filters(), alias="filters")
    """What drops a pair; an empty side always does."""
    deduplicate: Literal["pair", "source", "target"] | None = None
    """What has to be equal for a pair to repeat an earlier one of its domain; without it repetitions stay."""
    write_rejected: bool = False
    """Whether to write every dropped pair with its line and reason to ``rejected/DOMAIN.tsv.gz``."""

    @model_validator(mode="before")
    @classmethod
    def _keep_empty_normalise(cls, value: Any) -> Any:
        """``normalise:`` with nothing below it means its defaults."""
        is_empty = isinstance(value, dict) and "normalise" in value and value["normalise"] is None
        return {**value, "normalise": {}} if is_empty else value

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
        """Raise InputError, before long work begins, if a filter cannot judge these languages or lacks a package."""
        for each in self.filters.values():
            each.check(langs)


@dataclass(frozen=True)
class CleanBlock:
    """The task that cleans one block.

    Attributes:
        corpora: imported corpora (:mod:`fairseq_ext.corpora.import_corpora`).
        num_blocks: by domain, in the order of the tasks.
        langs: source and target language.
        cleaning: what to do.
        learned: folder of what the filters have learned, if they have to.
    """

    corpora: Path
    num_blocks: Mapping[str, int]
    langs: tuple[str, str]
    cleaning: Cleaning
    learned: Path | None

    def __call__(self, index: int, output: Path) -> None:
        """Clean the block of this number, counted over all domains, into an empty directory."""
        name, block = self._locate(index)
        raw = read_block(self.corpora, name, self.langs, block)
        first = first_pair(load_index(self.corpora, name), block) + 1
        pairs = normalise_pairs(raw, self.langs, self.cleaning.normalise)
        accepted, rejected = run_filters(self.cleaning.filters, Batch(pairs, self.langs, Learned(self.learned)))
        kept = [pairs[row] for row in accepted]
        for side, lang in enumerate(self.langs):
            write_lines(output / f"kept.{lang}", (pair[side] for pair in kept))
        np.save(output / _LINES, first + np.array(accepted, dtype=np.int64))
        if self.cleaning.deduplicate:
            np.save(output / _KEYS, pair_keys(kept, self.cleaning.deduplicate))
        # Text in corpora is collapsed, so neither tabs nor line feeds occur in it.
        rows = (Drop(first + row, *rejected[row], *pairs[row]) for row in sorted(rejected))
        write_lines(output / _REJECTED, ("\t".join(map(str, row)) for row in rows))
        changed = sum(one != other for one, other in zip(raw, pairs, strict=True))
        counts = {"pairs": len(raw), "changed": changed}
        (output / _COUNTS).write_text(json.dumps(counts), encoding="utf-8")

    def _locate(self, index: int) -> tuple[str, int]:
        for name, count in self.num_blocks.items():
            if index < count:
                return name, index
            index -= count
        raise IndexError(index)


def clean_corpora(
    folder: Path,
    corpora: Path,
    domains: Sequence[str],
    langs: tuple[str, str],
    cleaning: Cleaning,
    engine: Engine,
    learned: Path | None = None,
) -> str:
    """Clean all domains of a folder of imported corpora, and report on it.

    Writes ``DOMAIN.LANG``, the report and, if asked for, ``rejected/DOMAIN.tsv.gz``. An interrupted run is continued.

    Args:
        folder: where to write.
        corpora: made by :func:`~fairseq_ext.corpora.import_corpora.import_domain`.
        domains: their names, sorted.
        langs: source and target language.
        cleaning: what to do.
        engine: where the blocks are cleaned; makes no difference to the result.
        learned: folder of what the filters have learned, if they have to.

    Returns:
        what was done, for people.
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
    with ExitStack() as stack:
        files = [stack.enter_context((folder / f"{name}.{lang}").open("wb")) for lang in langs]
        rejected_file = stack.enter_context(_open_rejected(folder, name)) if cleaning.write_rejected else None
        for block, repeats in zip(blocks, _mark_repeats(blocks, cleaning), strict=True):
            sides = [(block / f"kept.{lang}").read_bytes().splitlines(keepends=True) for lang in langs]
            kept = [list(compress(side, (~repeats).tolist())) for side in sides]
            for file, lines in zip(files, kept, strict=True):
                file.writelines(lines)
            drops = sorted([*_read_drops(block), *_repetitions(block, sides, repeats)])
            counts = json.loads((block / _COUNTS).read_text(encoding="utf-8"))
            tally.add_block({**counts, "kept": len(kept[0])}, drops)
            if rejected_file:
                rejected_file.writelines(("\t".join(map(str, drop)) + "\n").encode() for drop in drops)
    if not tally.counts["kept"]:
        raise InputError(f"{name}: no pair passed ({tally.summary()}); loosen clean.filters")


def _mark_repeats(blocks: Sequence[Path], cleaning: Cleaning) -> Iterator[np.ndarray]:
    """Of every block, which of its kept pairs repeat an earlier one of the domain (shape: pairs)."""
    if cleaning.deduplicate is None:
        yield from (np.zeros(len(np.load(block / _LINES)), dtype=bool) for block in blocks)
        return
    keys = [np.load(block / _KEYS, mmap_mode="r") for block in blocks]
    yield from np.split(find_repeats(keys), np.cumsum([len(block) for block in keys])[:-1])


def _read_drops(block: Path) -> Iterator[Drop]:
    with (block / _REJECTED).open(encoding="utf-8", newline="\n") as file:
        for line in file:
            number, *others = line.removesuffix("\n").split("\t")
            yield Drop(int(number), *others)


def _repetitions(block: Path, sides: Sequence[Sequence[bytes]], repeats: np.ndarray) -> Iterator[Drop]:
    lines = np.load(block / _LINES)
    for row in np.flatnonzero(repeats).tolist():
        pair = (side[row].decode().removesuffix("\n") for side in sides)
        yield Drop(int(lines[row]), REPEATED, "repeats an earlier pair", *pair)


@contextmanager
def _open_rejected(folder: Path, name: str) -> Iterator[IO[bytes]]:
    (folder / "rejected").mkdir(exist_ok=True)
    with open_binary(folder / "rejected" / f"{name}.tsv.gz", "wb") as file:
        file.write(("\t".join(Drop._fields) + "\n").encode())
        yield file
