"""The report on cleaning: what was dropped and why, by domain and filter, with samples."""

from __future__ import annotations

import inspect
import random
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, is_dataclass
from pathlib import Path
from typing import Any, NamedTuple

from fairseq_ext.report.measurements import Record, Records
from fairseq_ext.report.plots import line_panels
from fairseq_ext.report.render import Page, Plot, write_report
from fairseq_ext.report.tables import Column, Table

ALL = "all domains"
MAX_SAMPLES = 5  # of a domain and filter
_MAX_CHARACTERS = 300  # of a sample's text
_LONGEST = 101  # words; longer sentences are counted with these
_DROPPED, _IMPORTED = "dropped by ", "imported: "
_LANGUAGE = "language"  # the filter whose reasons are counted

_REPEATED = "Drops pairs that repeat an earlier one of their domain."


class Drop(NamedTuple):
    """A dropped pair.

    Attributes:
        line: of the imported corpus, from 1.
        filter: its name.
        reason: why the filter did not accept it.
        source: its text, normalised.
        target: the same.
    """

    line: int
    filter: str
    reason: str
    source: str
    target: str


class Tally:
    """What happened to the pairs of a domain; blocks are added in the order of the corpus.

    Args:
        imported: what import counted.
    """

    def __init__(self, imported: Mapping[str, int] | None = None) -> None:
        # Lines first, since the rest is counted among them.
        names = sorted(imported or {}, key=lambda name: (name != "lines", name))
        self.counts = Counter({f"{_IMPORTED}{name}": imported[name] for name in names} if imported else {})
        self._samples: dict[str, list[Drop]] = {}
        # Sentences by their words: of each side, before and after.
        self.words = {when: (Counter[int](), Counter[int]()) for when in ("before", "after")}
        self._random = random.Random(1)

    def add_block(self, counts: Mapping[str, Any], kept: Sequence[Sequence[bytes]], drops: Sequence[Drop]) -> None:
        """Count a block.

        Args:
            counts: ``pairs``, ``changed`` by normalisation, and of each side the :func:`word_histogram` before.
            kept: the lines of both sides.
            drops: the dropped pairs, by line.
        """
        self.counts.update({"pairs": counts["pairs"], "changed": counts["changed"], "kept": len(kept[0])})
        for side in (0, 1):
            self.words["before"][side].update(dict(counts["words"][side]))
            self.words["after"][side].update(dict(word_histogram(kept[side], b" ")))
        for drop in drops:
            self._add_drop(drop)

    def _add_drop(self, drop: Drop) -> None:
        name = f"{_DROPPED}{drop.filter}"
        self.counts[name] += 1
        if drop.filter == _LANGUAGE:
            self.counts[drop.reason.partition(" (")[0]] += 1
        # Every dropped pair of a filter has the same chance to be a sample.
        samples = self._samples.setdefault(drop.filter, [])
        if len(samples) < MAX_SAMPLES:
            samples.append(drop)
        elif (place := self._random.randrange(self.counts[name])) < MAX_SAMPLES:
            samples[place] = drop

    def samples_of(self, name: str) -> list[Drop]:
        """The samples of a filter, by line."""
        return sorted(self._samples.get(name, []))

    def summary(self) -> str:
        """What was dropped, in a few words."""
        dropped = {name: count for name, count in self.counts.items() if name.startswith(_DROPPED)}
        return ", ".join(f"{count:,} {name}" for name, count in dropped.items())


def word_histogram(texts: Iterable[Any], space: Any = " ") -> list[tuple[int, int]]:
    """How many texts have how many words, which single spaces separate."""
    return sorted(Counter(min(text.count(space) + bool(text), _LONGEST) for text in texts).items())


def write_cleaning_report(
    folder: Path, langs: tuple[str, str], options: Mapping[str, Any], domains: Mapping[str, Tally]
) -> None:
    """Write ``report.md``, ``report.html`` and ``records.jsonl``.

    Args:
        folder: where to write.
        langs: source and target language.
        options: by name, what can drop or change a pair: filters first, in their order.
        domains: by name, what happened to each.
    """
    filters = [name for name in options if name != "normalise"]
    counts = {name: tally.counts for name, tally in domains.items()}
    if len(domains) > 1:
        counts[ALL] = _sum(counts.values())
    pairs, kept = (sum(tally.counts[key] for tally in domains.values()) for key in ("pairs", "kept"))
    page = Page(
        f"Cleaning: {langs[0]}–{langs[1]}",
        f"{_percent(kept, pairs)} of {pairs:,} sentence pairs were kept.",
        {
            "Dropped pairs": [_dropped_table(counts, filters), *_languages(counts)],
            "Lengths": [_plot(langs, list(domains.values()))],
            "Import": list(_imports(counts)),
            "Options": [_options_table(options)],
            "Samples of dropped pairs": _samples(domains, filters, langs),
        },
    )
    write_report(folder, page, Records(list(_records(domains))))


def _sum(counts: Iterable[Counter[Any]]) -> Counter[Any]:
    return sum(counts, Counter())


def _records(domains: Mapping[str, Tally]) -> Iterator[Record]:
    for name, tally in domains.items():
        for metric, value in tally.counts.items():
            yield Record(domain=name, metric=metric, value=value, n=tally.counts["pairs"])


def _dropped_table(counts: Mapping[str, Counter[str]], filters: Sequence[str]) -> Table:
    columns = [
        _counted("pairs", "pairs", counts),
        _counted("kept", "kept", counts),
        Column("kept", lambda name: _percent(counts[name]["kept"], counts[name]["pairs"])),
        *(_counted(name, f"{_DROPPED}{name}", counts) for name in filters),
        _counted("changed by normalisation", "changed", counts),
    ]
    note = "A pair counts for the first filter, from left to right, that drops it."
    return Table("What each filter dropped", "domain", list(counts), columns, [note])


def _counted(heading: str, key: str, counts: Mapping[str, Counter[str]]) -> Column:
    return Column(heading, lambda name: counts[name][key], ",")


def _languages(counts: Mapping[str, Counter[str]]) -> Iterator[Table]:
    found = sorted({key for each in counts.values() for key in each if key.startswith(("source is", "target is"))})
    if found:
        columns = [_counted(key, key, counts) for key in found]
        yield Table("What the filter of languages took dropped sides for", "domain", list(counts), columns)


def _plot(langs: tuple[str, str], tallies: Sequence[Tally]) -> Plot:
    panels: dict[str, dict[str, dict[float, float]]] = {}
    for side, lang in enumerate(langs):
        words = {
            when: sum((tally.words[when][side] for tally in tallies), Counter[int]()) for when in ("before", "after")
        }
        whole = max(1, words["before"].total())
        panels[lang] = {
            when: {count: 100 * number / whole for count, number in sorted(counts.items())}
            for when, counts in words.items()
        }
    note = f"Both are shares of the pairs before. Sentences of {_LONGEST} words or more count as {_LONGEST}."
    return Plot("lengths", "Words of a sentence", line_panels(panels, "words", "% of sentences"), note)


def _imports(counts: Mapping[str, Counter[str]]) -> Iterator[Table]:
    found = dict.fromkeys(key for each in counts.values() for key in each if key.startswith(_IMPORTED) and each[key])
    if found:
        columns = [_counted(key.removeprefix(_IMPORTED).replace("_", " "), key, counts) for key in found]
        yield Table("What import read, left out and mended", "domain", list(counts), columns)


def _options_table(options: Mapping[str, Any]) -> Table:
    def values(name: str) -> str:
        given = asdict(options[name]) if is_dataclass(options[name]) else options[name]
        return ", ".join(f"{key}: {value}" for key, value in given.items())

    def meaning(name: str) -> str:
        text = inspect.getdoc(type(options[name])) if is_dataclass(options[name]) else ""
        return " ".join(
            (text or "Drops pairs that repeat an earlier one of their domain.").partition("\n\n")[0].split()
        )

    columns = [Column("does", meaning, is_text=True), Column("options", values, is_text=True)]
    return Table("Filters and their options", "name", list(options), columns)


def _samples(domains: Mapping[str, Tally], filters: Sequence[str], langs: tuple[str, str]) -> list[Table]:
    drops = {
        name: {f"{domain} {drop.line}": drop for domain, tally in domains.items() for drop in tally.samples_of(name)}
        for name in filters
    }
    return [_samples_table(name, rows, langs) for name, rows in drops.items() if rows]


def _samples_table(name: str, drops: Mapping[str, Drop], langs: tuple[str, str]) -> Table:
    columns = [
        Column("reason", lambda row: _cut(drops[row].reason), is_text=True),
        Column(langs[0], lambda row: _cut(drops[row].source), is_text=True),
        Column(langs[1], lambda row: _cut(drops[row].target), is_text=True),
    ]
    return Table(name, "domain and line", list(drops), columns)


def _cut(text: str) -> str:
    return text if len(text) <= _MAX_CHARACTERS else text[: _MAX_CHARACTERS - 1].rstrip() + "…"


def _percent(value: int, whole: int) -> str:
    """The share to a decimal, never rounded to nothing or to all."""
    share = 100 * value / max(whole, 1)
    if 0 < share < 0.05:
        return "<0.1 %"
    return ">99.9 %" if 99.95 <= share < 100 else f"{share:.1f} %"
