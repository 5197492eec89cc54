"""The report on cleaning: pairs dropped by each filter, by domain, with samples."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from fairseq_ext.base.sections import Section
from fairseq_ext.experiments.metrics.records import Record, Records
from fairseq_ext.experiments.metrics.render import Page, Sections, write_report
from fairseq_ext.experiments.metrics.tables import Column, Table
from fairseq_ext.text.cleaning.clean import REPEATED, Cleaning
from fairseq_ext.text.cleaning.tally import DROPPED, IMPORTED, Tally

ALL = "all domains"
_MAX_CHARACTERS = 300  # of a sample's text
_SHARE = "share kept"


def write_cleaning_report(
    folder: Path, langs: tuple[str, str], cleaning: Cleaning, domains: Mapping[str, Tally]
) -> str:
    """Write ``report.md``, ``report.html`` and ``records.jsonl``, and return a summary."""
    options = _options(cleaning)
    filters = [name for name in options if name != "normalise"]
    counts = {name: tally.counts for name, tally in domains.items()}
    if len(domains) > 1:
        counts[ALL] = sum(counts.values(), Counter())
    pairs, kept = (sum(tally.counts[key] for tally in domains.values()) for key in ("pairs", "kept"))
    summary = f"{_percent(kept, pairs)} of {pairs:,} sentence pairs were kept."
    sections: Sections = {
        "Dropped pairs": [_dropped_table(counts, filters)],
        "Import": _imports(counts),
        "Options": [_options_table(options)],
        "Samples of dropped pairs": _samples(domains, filters, langs),
    }
    records = [
        Record(domain=name, metric=metric, value=value, n=tally.counts["pairs"])
        for name, tally in domains.items()
        for metric, value in tally.counts.items()
    ]
    write_report(folder, Page(f"Cleaning: {langs[0]}–{langs[1]}", summary, sections), Records(records))
    return f"kept {kept:,} of {pairs:,} pairs; report.html says what was dropped, and why"


def _dropped_table(counts: Mapping[str, Counter[str]], filters: Sequence[str]) -> Table:
    keys = {"pairs": "pairs", "kept": "kept", _SHARE: "", **{name: f"{DROPPED}{name}" for name in filters}}
    keys["changed by normalisation"] = "changed"

    def column(name: str) -> Column:
        tally = counts[name]
        share = _percent(tally["kept"], tally["pairs"])
        return Column(name, lambda row: share if row == _SHARE else f"{tally[keys[row]]:,}")

    domains = sorted(counts, key=lambda name: name != ALL)
    note = "Filters run from top to bottom; a pair is counted for the first filter that drops it."
    return Table("Pairs dropped by each filter", "outcome", list(keys), [column(name) for name in domains], [note])


def _imports(counts: Mapping[str, Counter[str]]) -> list[Table]:
    def column(key: str) -> Column:
        return Column(key.removeprefix(IMPORTED).replace("_", " "), lambda name: counts[name][key], ",")

    keys = dict.fromkeys(key for tally in counts.values() for key in tally if key.startswith(IMPORTED) and tally[key])
    return [Table("Lines read, omitted and repaired on import", "domain", list(counts), list(map(column, keys)))]


def _options_table(options: Mapping[str, Any]) -> Table:
    def values(name: str) -> str:
        chosen = options[name].model_dump() if isinstance(options[name], Section) else options[name]
        return ", ".join(f"{key}: {value}" for key, value in chosen.items() if value is not None) or "none"

    return Table(
        "Filters in order, and normalisation", "name", list(options), [Column("options", values, is_text=True)]
    )


def _samples(domains: Mapping[str, Tally], filters: Sequence[str], langs: tuple[str, str]) -> list[Table]:
    """Return a table for each filter that dropped pairs."""
    tables = []
    for name in filters:
        samples = [(domain, drop) for domain, tally in domains.items() for drop in tally.samples_of(name)]
        columns = [
            Column("reason", lambda row: _shortened(row[1].reason), is_text=True),
            Column(langs[0], lambda row: _shortened(row[1].source), is_text=True),
            Column(langs[1], lambda row: _shortened(row[1].target), is_text=True),
        ]
        if samples:
            tables.append(
                Table(name, "domain and line", samples, columns, labels=lambda row: f"{row[0]} {row[1].line}")
            )
    return tables


def _shortened(text: str) -> str:
    return text if len(text) <= _MAX_CHARACTERS else text[: _MAX_CHARACTERS - 1].rstrip() + "…"


def _percent(value: int, whole: int) -> str:
    return f"{100 * value / max(whole, 1):.1f} %"


def _options(cleaning: Cleaning) -> dict[str, Section | dict[str, str]]:
    """Return the filters in order, then the other options."""
    options: dict[str, Section | dict[str, str]] = {**cleaning.filters}
    if cleaning.deduplicate:
        options[REPEATED] = {"by": cleaning.deduplicate}
    if cleaning.normalise:
        options["normalise"] = cleaning.normalise
    return options
