"""From imported to clean corpora: normalise, filter, drop repetitions, and account for every pair.

Every block of pairs is a task of its own (:mod:`fairseq_ext.engine.tasks`). Putting the blocks
together again, in the corpus's order, is all that one process does alone.
"""

from __future__ import annotations

import dataclasses
import json
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from itertools import compress
from pathlib import Path
from typing import IO, Any

import numpy as np

from fairseq_ext.corpora.blocks import first_pair, load_index, num_blocks, read_block
from fairseq_ext.corpora.compressed import open_binary
from fairseq_ext.corpora.text_files import Pair, write_lines
from fairseq_ext.engine.tasks import TASKS_DIR, Engine, remove_tasks, run_tasks, task_output
from fairseq_ext.filtering.batch import Batch
from fairseq_ext.filtering.cascade import Filter, Outcome, check_filters, run_cascade
from fairseq_ext.filtering.deduplicate import find_repeats, pair_keys
from fairseq_ext.filtering.language_id import detected_language
from fairseq_ext.filtering.normalise import Normalise, normalise_lines
from fairseq_ext.filtering.report import write_report
from fairseq_ext.filtering.statistics import (
    Statistics,
    choose_samples,
    empty_statistics,
    make_report,
    make_sample,
    merge,
    ratio_histogram,
    word_histogram,
)
from fairseq_ext.inputs.errors import InputError

REPEATED = "repeated"
REJECTED_COLUMNS = ("line", "filter", "reason", "source", "target")
# Of a block's kept pairs: line numbers (N), words a side (N×2) and keys (N×2); the text is in a file a language.
_LINES, _WORDS, _KEYS = "lines.npy", "words.npy", "keys.npy"
_REJECTED, _STATISTICS = "rejected.tsv", "statistics.json"


@dataclass(frozen=True)
class Cleaning:
    """What is done to every pair before the split.

    Attributes:
        filters: by name, in the order of the cascade (:data:`~fairseq_ext.filtering.cascade.FILTERS`).
        normalise: see :mod:`fairseq_ext.filtering.normalise`; without it nothing is changed.
        deduplicate: what has to be equal for a pair to repeat an earlier one of its domain (``pair``,
            ``source`` or ``target``); without it repetitions stay.
        write_rejected: write every dropped pair with its line and reason to ``rejected/DOMAIN.tsv.gz``.
    """

    filters: Mapping[str, Filter] = field(metadata={"in_file": False})
    normalise: Normalise | None = field(default=None, metadata={"in_file": False})
    deduplicate: str | None = None
    write_rejected: bool = False

    @property
    def cascade(self) -> list[str]:
        """What can drop a pair, in order."""
        return [*self.filters, *([REPEATED] if self.deduplicate else [])]


@dataclass(frozen=True)
class CleanBlock:
    """The task that cleans one block; calling it returns, by filter, how many pairs it judged in how many seconds.

    Args:
        corpora: imported corpora (:mod:`fairseq_ext.corpora.import_corpora`).
        num_blocks: by domain, in the order of the tasks.
        langs: source and target language.
        cleaning: what to do.
    """

    corpora: Path
    num_blocks: Mapping[str, int]
    langs: tuple[str, str]
    cleaning: Cleaning

    def __call__(self, index: int, output: Path) -> dict[str, tuple[int, float]]:
        """Clean the block of this number, counted over all domains, into an empty directory."""
        name, block = self._locate(index)
        raw = read_block(self.corpora, name, self.langs, block)
        start = time.perf_counter()
        pairs = normalise_pairs(raw, self.langs, self.cleaning.normalise)
        seconds = time.perf_counter() - start
        batch = Batch(pairs, self.langs)
        outcome = run_cascade(self.cleaning.filters, batch)
        first = first_pair(load_index(self.corpora, name), block) + 1
        kept = [pairs[row] for row in outcome.kept.tolist()]
        for side, lang in enumerate(self.langs):
            write_lines(output / f"kept.{lang}", (pair[side] for pair in kept))
        np.save(output / _LINES, first + outcome.kept)
        np.save(output / _WORDS, batch.take(outcome.kept).num_words)
        rejected = [(first + row, *why, pairs[row]) for row, why in sorted(outcome.rejected.items())]
        _write_table(output / _REJECTED, ((line, name, reason, *pair) for line, name, reason, pair in rejected))
        if self.cleaning.deduplicate:
            np.save(output / _KEYS, pair_keys(kept, self.cleaning.deduplicate))
        statistics = _describe(raw, batch, outcome, rejected, self.cleaning.cascade)
        (output / _STATISTICS).write_text(json.dumps(statistics), encoding="utf-8")
        times = {name: (outcome.judged[name], outcome.seconds[name]) for name in outcome.judged}
        return {"normalise": (len(raw), seconds), **times} if self.cleaning.normalise else times

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

    Writes ``DOMAIN.LANG``, ``report.json``, ``report.html`` and, if asked for, ``rejected/DOMAIN.tsv.gz``. An
    interrupted run is continued. Pairs a second and filter go to stderr.

    Args:
        folder: where to write.
        corpora: made by :func:`~fairseq_ext.corpora.import_corpora.import_domain`.
        domains: their names, sorted.
        langs: source and target language.
        cleaning: what to do.
        engine: where the blocks are cleaned; makes no difference to the result.
        learned: folder of what the filters have learned, if they have to.

    Raises:
        InputError: if a domain has no pair left, or a task failed.
    """
    check_filters(cleaning.filters, langs)
    indices = {name: load_index(corpora, name) for name in domains}
    sizes = {name: num_blocks(index) for name, index in indices.items()}
    task = CleanBlock(corpora.resolve(), sizes, langs, with_learned(cleaning, learned))
    timings = run_tasks(task, folder / TASKS_DIR, sum(task.num_blocks.values()), engine, "clean")
    statistics, first = {}, 0
    for name, count in task.num_blocks.items():
        blocks = [task_output(folder / TASKS_DIR, index) for index in range(first, first + count)]
        statistics[name] = _assemble(folder, name, langs, blocks, cleaning)
        statistics[name]["import"] = dict(sorted(indices[name]["tally"].items()))
        first += count
    write_report(folder, make_report(langs, cleaning.cascade, _options(cleaning), statistics))
    remove_tasks(folder / TASKS_DIR)
    kept, pairs = (sum(each[key] for each in statistics.values()) for key in ("kept", "pairs"))
    return f"kept {kept:,} of {pairs:,} pairs; report.html says what was dropped, and why{_slowest(timings)}"


def normalise_pairs(raw: Sequence[Pair], langs: tuple[str, str], options: Normalise | None) -> Sequence[Pair]:
    """Normalise both sides, if there are options to do so."""
    if options is None:
        return raw
    sides = [normalise_lines([pair[side] for pair in raw], lang, options) for side, lang in enumerate(langs)]
    return [Pair(*pair) for pair in zip(*sides, strict=True)]


def with_learned(cleaning: Cleaning, learned: Path | None) -> Cleaning:
    """The cleaning that workers do, wherever they run: the report should not name these absolute paths.

    Args:
        cleaning: as the experiment has it.
        learned: folder of what the filters have learned, if they have to.
    """
    paths = {"learned": learned, "word_list": getattr(cleaning.filters.get("dictionary"), "word_list", None)}
    absolute = {key: str(Path(path).resolve()) for key, path in paths.items() if path is not None}
    filters: dict[str, Filter] = {}
    for name, item in cleaning.filters.items():
        changes = {key: path for key, path in absolute.items() if hasattr(item, key)}
        filters[name] = dataclasses.replace(item, **changes) if changes else item  # type: ignore[type-var]
    return dataclasses.replace(cleaning, filters=filters)


def _options(cleaning: Cleaning) -> dict[str, dict[str, Any]]:
    """What the report says of the options, by filter and for what is not one."""
    others: dict[str, Any] = {}
    if cleaning.normalise:
        others["normalise"] = dataclasses.asdict(cleaning.normalise)
    if cleaning.deduplicate:
        others[REPEATED] = {"by": cleaning.deduplicate}
    return {name: _given(item) for name, item in cleaning.filters.items()} | others


def _given(item: Filter) -> dict[str, Any]:
    """The options of a filter that an experiment file has."""
    fields = dataclasses.fields(item)  # type: ignore[arg-type]
    return {each.name: getattr(item, each.name) for each in fields if each.metadata.get("in_file", True)}


def _describe(
    raw: Sequence[Pair], batch: Batch, outcome: Outcome, rejected: Iterable[tuple], cascade: Sequence[str]
) -> Statistics:
    """The statistics of a block before repetitions are known."""
    langs = batch.langs
    statistics = empty_statistics(langs, cascade)
    statistics["pairs"] = len(raw)
    statistics["changed_by_normalisation"] = sum(one != other for one, other in zip(raw, batch.pairs, strict=True))
    num_words = Batch(raw, langs).num_words
    statistics["words_before"] = word_histogram(num_words, langs)
    statistics["ratio_before"] = ratio_histogram(num_words)
    for line, name, reason, pair in rejected:
        statistics["rejected"][name] += 1
        statistics["samples"][name].append(make_sample(line, reason, pair))
        if name == "language" and (found := detected_language(reason)):
            counts = statistics["languages"][langs[("source", "target").index(found[0])]]
            counts[found[1]] = counts.get(found[1], 0) + 1
    statistics["samples"] = {name: choose_samples(samples) for name, samples in statistics["samples"].items()}
    return statistics


def _assemble(
    folder: Path, name: str, langs: tuple[str, str], blocks: Sequence[Path], cleaning: Cleaning
) -> Statistics:
    """Write a domain's corpus from its blocks, without the repetitions, and return its statistics."""
    statistics = empty_statistics(langs, cleaning.cascade)
    with ExitStack() as stack:
        files = [stack.enter_context((folder / f"{name}.{lang}").open("wb")) for lang in langs]
        rejected_file = stack.enter_context(_open_rejected(folder, name)) if cleaning.write_rejected else None
        for block, repeats in zip(blocks, _mark_repeats(blocks, cleaning), strict=True):
            sides = [_read_kept(block, lang) for lang in langs]
            for file, lines in zip(files, sides, strict=True):
                file.writelines(compress(lines, (~repeats).tolist()))
            repeated = _repetitions(block, sides, repeats)
            statistics = merge(statistics, _complete(block, langs, repeats, repeated))
            if rejected_file:
                rows = [*_read_table(block / _REJECTED), *repeated]
                rows.sort(key=lambda row: int(row[0]))
                rejected_file.writelines(("\t".join(row) + "\n").encode() for row in rows)
    if not statistics["kept"]:
        raise InputError(
            f"{name}: no pair of {statistics['pairs']} passed ({_counts(statistics)}); loosen clean.filters"
        )
    return statistics


def _mark_repeats(blocks: Sequence[Path], cleaning: Cleaning) -> Iterator[np.ndarray]:
    """Of every block, which of its kept pairs repeat an earlier one of the domain (shape: pairs)."""
    if cleaning.deduplicate is None:
        yield from (np.zeros(len(np.load(block / _LINES)), dtype=bool) for block in blocks)
        return
    keys = [np.load(block / _KEYS, mmap_mode="r") for block in blocks]
    repeats = find_repeats(keys)
    yield from np.split(repeats, np.cumsum([len(block) for block in keys])[:-1])


def _read_kept(block: Path, lang: str) -> list[bytes]:
    with (block / f"kept.{lang}").open("rb") as file:
        return list(file)


def _repetitions(block: Path, sides: Sequence[Sequence[bytes]], repeats: np.ndarray) -> list[list[str]]:
    """A block's repetitions as rejected rows."""
    lines = np.load(block / _LINES)
    return [
        [
            str(lines[row]),
            REPEATED,
            "repeats an earlier pair",
            *(side[row].decode().removesuffix("\n") for side in sides),
        ]
        for row in np.flatnonzero(repeats).tolist()
    ]


def _complete(block: Path, langs: tuple[str, str], repeats: np.ndarray, repeated: list[list[str]]) -> Statistics:
    """A block's statistics with what is only known when repetitions are."""
    statistics: Statistics = json.loads((block / _STATISTICS).read_text(encoding="utf-8"))
    num_words = np.load(block / _WORDS)[~repeats]
    statistics["kept"] = len(num_words)
    statistics["words_after"] = word_histogram(num_words, langs)
    statistics["ratio_after"] = ratio_histogram(num_words)
    if repeated:
        statistics["rejected"][REPEATED] = len(repeated)
        samples = [make_sample(int(line), reason, Pair(*pair)) for line, _, reason, *pair in repeated]
        statistics["samples"][REPEATED] = choose_samples(samples)
    return statistics


@contextmanager
def _open_rejected(folder: Path, name: str) -> Iterator[IO[bytes]]:
    (folder / "rejected").mkdir(exist_ok=True)
    with open_binary(folder / "rejected" / f"{name}.tsv.gz", "wb") as file:
        file.write(("\t".join(REJECTED_COLUMNS) + "\n").encode())
        yield file


def _slowest(timings: Sequence[Mapping[str, tuple[int, float]]]) -> str:
    """The filter that took longest in the blocks cleaned just now, and its pairs a second on one core."""
    seconds: defaultdict[str, float] = defaultdict(float)
    pairs: Counter[str] = Counter()
    for timing in timings:
        for name, (count, spent) in timing.items():
            pairs[name] += count
            seconds[name] += spent
    if not seconds:
        return ""
    name = max(seconds, key=lambda name: seconds[name])
    return f"; slowest was {name}, {pairs[name] / max(seconds[name], 1e-9):,.0f} pairs a second and core"


def _counts(statistics: Statistics) -> str:
    dropped = {name: count for name, count in statistics["rejected"].items() if count}
    return ", ".join(f"{name} {count}" for name, count in dropped.items()) or "nothing dropped"


# Text in corpora is collapsed, so neither tabs nor line feeds occur in it.
def _write_table(path: Path, rows: Iterable[Iterable[object]]) -> None:
    write_lines(path, ("\t".join(map(str, row)) for row in rows))


def _read_table(path: Path) -> list[list[str]]:
    with path.open(encoding="utf-8", newline="\n") as file:
        return [line.removesuffix("\n").split("\t") for line in file]
