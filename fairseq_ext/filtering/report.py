"""One page about what cleaning dropped and why, for people: tables, charts and samples.

The page is made from the report file alone and fetches nothing, so it can be sent
around. Its charts are SVG written out here, which lets them follow the reader's light or dark colours.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fairseq_ext.report import charts
from fairseq_ext.report.page import NUM_COLOURS, make_environment

REPORT_FILE = "report.json"
PAGE_FILE = "report.html"
_TEMPLATE = "report.html.jinja"

_MEANINGS = {
    "empty": "a side has no text",
    "length": "too few or too many words or characters",
    "length_ratio": "one side is much longer than the other",
    "long_words": "a word too long to be one",
    "characters": "too few letters, or letters of another script",
    "encoding": "text read in the wrong encoding",
    "identical": "source and target say the same, untranslated",
    "agreement": "numbers, addresses or markup differ between the sides",
    "completeness": "a part of one side is missing on the other",
    "language": "a side is in another language",
    "dictionary": "the words say that it is no translation",
    "repeated": "an earlier pair of the domain says the same",
}
_ALL = "All domains"
_SIDES = ("Source", "Target")
_WORDS = ("words_before", "words_after")
_RATIOS = ("ratio_before", "ratio_after")
_NUM_LANGUAGES = 8  # columns of their own in the tables of languages


@dataclass(frozen=True)
class Count:
    """A number of pairs, and of how many."""

    value: int
    total: int

    @property
    def share(self) -> float:
        return self.value / self.total if self.total else 0.0

    @property
    def percent(self) -> str:
        """The share to a decimal, never rounded to nothing or to all."""
        if not self.total:
            return "–"
        if self.value in (0, self.total):
            return "100%" if self.value else "0%"
        if 2000 * self.value <= self.total:
            return "<0.1%"
        return ">99.9%" if 2000 * (self.total - self.value) <= self.total else f"{100 * self.share:.1f}%"


@dataclass(frozen=True)
class Row:
    """A domain, or all of them: what came in, what was kept, what each filter dropped."""

    name: str
    pairs: int
    kept: Count
    dropped: Count
    changed: Count
    rejected: dict[str, Count]


@dataclass(frozen=True)
class Segment:
    """A filter's part of a bar; place and width in percent of the axis."""

    filter: str
    start: str
    width: str
    count: Count


@dataclass(frozen=True)
class Confusion:
    """Of one side, what the language filter took dropped text for; ``None`` stands for the other languages."""

    title: str
    expected: str
    found: list[str | None]
    rows: list[tuple[str, int, list[Count]]]


def write_report(folder: Path, report: Mapping[str, Any]) -> None:
    """Write a report as the file that programs read and the page that people read.

    Args:
        folder: where ``report.json`` and ``report.html`` go.
        report: see :func:`fairseq_ext.filtering.statistics.make_report`.
    """
    folder.mkdir(parents=True, exist_ok=True)
    text = json.dumps(report, indent=1, sort_keys=True, ensure_ascii=False) + "\n"
    for name, content in ((REPORT_FILE, text), (PAGE_FILE, render_report(report))):
        with (folder / name).open("w", encoding="utf-8", newline="\n") as file:
            file.write(content)


def render_report(report: Mapping[str, Any]) -> str:
    """The page as HTML; it depends on nothing but the report."""
    environment = make_environment(Path(__file__).parent)
    environment.filters |= {"words": _words, "heading": _heading, "option": _option}
    domains = dict(sorted(report["domains"].items()))
    cascade = report["cascade"]
    rows = [_row(name, domain, cascade) for name, domain in domains.items()]
    total = _total(rows, cascade)
    ticks = charts.axis_ticks(max((row.dropped.share for row in rows), default=0))
    return environment.get_template(_TEMPLATE).render(
        langs=report["langs"],
        cascade=cascade,
        colours={name: number % NUM_COLOURS for number, name in enumerate(cascade)},
        meanings=_MEANINGS,
        rows=rows,
        total=total,
        worst_filter=max(cascade, key=lambda name: total.rejected[name].value) if total.dropped.value else None,
        worst_domain=max(rows, key=lambda row: row.dropped.share) if total.dropped.value else None,
        axis=[(f"{100 * tick / ticks[-1]:.2f}", f"{100 * tick:g}%") for tick in ticks],
        bars=[(row, _segments(row, ticks[-1])) for row in rows],
        histograms=_histograms(report, domains),
        charts=charts,
        confusions=_confusions(report, domains),
        imports=_imports(domains),
        options=_options(report),
        samples=_samples(domains, cascade),
    )


def _row(name: str, domain: Mapping[str, Any], cascade: Sequence[str]) -> Row:
    pairs, kept = domain["pairs"], domain["kept"]
    return Row(
        name,
        pairs,
        Count(kept, pairs),
        Count(pairs - kept, pairs),
        Count(domain["changed_by_normalisation"], pairs),
        {name: Count(domain["rejected"].get(name, 0), pairs) for name in cascade},
    )


def _total(rows: Sequence[Row], cascade: Sequence[str]) -> Row:
    pairs = sum(row.pairs for row in rows)
    kept, dropped, changed = (
        Count(sum(getattr(row, field).value for row in rows), pairs) for field in ("kept", "dropped", "changed")
    )
    rejected = {name: Count(sum(row.rejected[name].value for row in rows), pairs) for name in cascade}
    return Row(_ALL, pairs, kept, dropped, changed, rejected)


def _segments(row: Row, top: float) -> list[Segment]:
    segments, start = [], 0.0
    for name, count in row.rejected.items():
        width = 100 * count.share / top
        if count.value:
            segments.append(Segment(name, f"{start:.3f}", f"{width:.3f}", count))
        start += width
    return segments


def _histograms(
    report: Mapping[str, Any], domains: Mapping[str, Mapping[str, Any]]
) -> list[tuple[str, int, list[charts.Histogram]]]:
    """Of all domains together and then of each: its name, its pairs and three histograms."""
    langs, edges = report["langs"], report["word_edges"]
    whole = {
        "pairs": sum(domain["pairs"] for domain in domains.values()),
        **{key: {lang: _sum(domain[key][lang] for domain in domains.values()) for lang in langs} for key in _WORDS},
        **{key: _sum(domain[key] for domain in domains.values()) for key in _RATIOS},
    }
    limit = charts.word_limit(whole["words_before"].values(), edges)
    # A single domain needs no sum.
    shown = {_ALL: whole, **domains} if len(domains) > 1 else domains
    rows = []
    for name, domain in shown.items():
        drawings = []
        for side, lang in zip(_SIDES, langs, strict=True):
            before, after = (domain[key][lang] for key in _WORDS)
            drawings.append(charts.draw_words(f"{side}: words a sentence ({lang})", (before, after), edges, limit))
        before, after = (domain[key] for key in _RATIOS)
        drawings.append(charts.draw_ratios("Target words / source words", (before, after), report["ratio_edges"]))
        rows.append((name, domain["pairs"], drawings))
    return rows


def _sum(histograms: Iterable[Sequence[int]]) -> list[int]:
    return [sum(counts) for counts in zip(*histograms, strict=True)]


def _confusions(report: Mapping[str, Any], domains: Mapping[str, Mapping[str, Any]]) -> list[Confusion]:
    """A table a side that lost anything for its language."""
    confusions = []
    for side, lang in zip(_SIDES, report["langs"], strict=True):
        tallies = {name: Counter(domain["languages"].get(lang, {})) for name, domain in domains.items()}
        tallies = {name: tally for name, tally in tallies.items() if tally}
        whole = sum(tallies.values(), Counter())
        if not whole:
            continue
        ranked = sorted(whole, key=lambda found: (-whole[found], found))
        # A last column for a single language would be no shorter.
        shown = ranked if len(ranked) <= _NUM_LANGUAGES + 1 else ranked[:_NUM_LANGUAGES]
        found = [*shown, *([None] if len(shown) < len(ranked) else [])]
        if len(tallies) > 1:
            tallies[_ALL] = whole
        rows = []
        for name, tally in tallies.items():
            counts = [tally[lang] for lang in shown]
            counts += [tally.total() - sum(counts)] * (len(found) - len(shown))
            rows.append((name, tally.total(), [Count(count, tally.total()) for count in counts]))
        confusions.append(Confusion(f"{side} side", lang, found, rows))
    return confusions


def _imports(domains: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """What importing counted, as a table: names of the columns, rows by domain, sums."""
    sums: Counter[str] = Counter()
    for domain in domains.values():
        sums.update(domain["import"])
    # Lines first, since the rest is counted among them.
    columns = sorted((name for name in sums if sums[name]), key=lambda name: (name != "lines", name))
    return {"columns": columns, "rows": [(name, domain["import"]) for name, domain in domains.items()], "sums": sums}


def _options(report: Mapping[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    order = {name: number for number, name in enumerate(report["cascade"])}
    names = sorted(report["options"], key=lambda name: (order.get(name, len(order)), name))
    return [(name, dict(sorted(report["options"][name].items()))) for name in names]


def _samples(domains: Mapping[str, Mapping[str, Any]], cascade: Sequence[str]) -> dict[str, list[tuple[str, Any]]]:
    samples = {
        name: [(domain, sample) for domain, found in domains.items() for sample in found["samples"].get(name, [])]
        for name in cascade
    }
    return {name: found for name, found in samples.items() if found}


def _words(name: str) -> str:
    """An identifier as words: ``bad_utf8_dropped`` as ``bad UTF-8 dropped``."""
    return name.replace("_", " ").replace("utf8", "UTF-8")


def _heading(text: str) -> str:
    return text[:1].upper() + text[1:]


def _option(value: Any) -> str:
    if value is None:
        return "not set"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list):
        return ", ".join(map(_option, value)) or "none"
    return f"{value:,}" if isinstance(value, int) else str(value)
