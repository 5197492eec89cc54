"""Sentences translated by the base and by another decoding run, to be read side by side."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from functools import partial
from operator import attrgetter

import numpy as np

from fairseq_ext.experiments.metrics.records import Record, Records, Row
from fairseq_ext.experiments.metrics.tables import Column, Table, escape
from fairseq_ext.experiments.translation.set_scores import TestSets
from fairseq_ext.text.languages import has_spaces

EXAMPLES_FILE = "examples.jsonl"
METRIC = "chrF"  # that sentences are chosen by
BETTER, WORSE = "sentences better than the base's", "sentences worse than the base's"  # metrics
SHOWN = 20
_CHARACTER = re.compile(r"\w\W*|\W+")  # with the punctuation behind it
# What is in bold. Without spaces around it, it must not begin or end with punctuation: Markdown would not recognise it.
_WORDS, _CHARACTERS = re.compile("()(.+)()"), re.compile(r"^(\W*)(\w.*?)(\W*)$")
_BOUNDS, _TO_BOLD = "\\1\ufdd0\\2\ufdd1\\3", dict.fromkeys((0xFDD0, 0xFDD1), "**")  # escaping keeps noncharacters


@dataclass(frozen=True)
class Example(Row):
    """A test sentence, translated by the base and by another decoding run."""

    system: str  # the other decoding run
    domain: str
    source: str
    reference: str
    base: str
    translation: str
    difference: float  # of sentence-level chrF: translation minus base


@dataclass(frozen=True)
class Translated:
    """The first run of a decoding run, on the test sentences of all domains."""

    texts: Mapping[str, Sequence[str]]  # N lines by domain
    scores: Mapping[str, np.ndarray]  # sentence-level chrF by domain: N


def examples_of(system: str, run: Translated, base: Translated, tests: TestSets) -> Iterator[Example]:
    """Yield the sentences to show of a decoding run.

    Sentences with equal translations are left out, the others of a domain ordered by the difference in chrF. Of D
    domains, the i-th of the twenty is of domain i mod D, at the quantile (i + ½) / 20. So domains have equal shares,
    and better and worse sentences have the shares that they have in the test sets.
    """
    differences = {name: run.scores[name] - base.scores[name] for name in tests.domains}
    ordered = {
        name: [row for row in values.argsort(kind="stable") if run.texts[name][row] != base.texts[name][row]]
        for name, values in differences.items()
    }
    domains = [name for name, rows in ordered.items() if rows]
    places = [(domains[i % len(domains)], (i + 0.5) / SHOWN) for i in range(SHOWN if domains else 0)]
    chosen = dict.fromkeys((name, ordered[name][int(quantile * len(ordered[name]))]) for name, quantile in places)
    for name, row in sorted(chosen, key=lambda place: -differences[place[0]][place[1]]):
        source, reference = tests.sources[name][row], tests.references[name][row]
        translations = base.texts[name][row], run.texts[name][row]
        yield Example(system, name, source, reference, *translations, float(differences[name][row]))


def shares_of(system: str, run: Translated, base: Translated) -> Iterator[Record]:
    """Yield how many sentences a decoding run translates better and worse than the base."""
    differences = np.concatenate([run.scores[name] - base.scores[name] for name in run.scores])
    for metric, count in {BETTER: (differences > 0).sum(), WORSE: (differences < 0).sum()}.items():
        yield Record(system=system, metric=metric, value=float(count), n=len(differences))


def examples_table(examples: Sequence[Example], base: str, records: Records, lang: str) -> Table:
    """Make the table of the examples of one decoding run. In bold: the words in which the translations differ."""
    system, text = examples[0].system, partial(Column, is_text=True)
    columns = [
        Column("chrF", attrgetter("difference"), "+.1f"),
        text("Source", attrgetter("source")),
        text("Reference", attrgetter("reference")),
        text(base, lambda row: mark_differences(row.base, row.translation, lang)[0], is_markdown=True),
        text(system, lambda row: mark_differences(row.base, row.translation, lang)[1], is_markdown=True),
    ]
    better, worse = (records.of(system, metric)[0] for metric in (BETTER, WORSE))
    counts = f"{better.value:,.0f} better and {worse.value:,.0f} worse than {base}"
    notes = [
        f"chrF: {system} minus {base}. Words that differ are marked.",
        f"Of {better.n:,} test sentences, {system} translates {counts}, by chrF.",
        _RULE,
    ]
    title = f"{len(examples)} sentences by {base} and {system}"
    return Table(title, "Domain", examples, columns, notes, attrgetter("domain"))


_RULE = (
    "Chosen by rule: equal shares of the domains, and evenly spaced quantiles of the difference among the sentences "
    "that are translated differently. Placeholders are translated as words here; exported systems keep them."
)


def mark_differences(one: str, other: str, lang: str) -> tuple[str, str]:
    """Return two translations as Markdown, with the words in bold in which they differ.

    In languages without spaces, these are characters.
    """
    joint, split, bold = (" ", str.split, _WORDS) if has_spaces(lang) else ("", _CHARACTER.findall, _CHARACTERS)
    pieces = split(one), split(other)
    written: tuple[list[str], list[str]] = [], []
    for kind, *bounds in SequenceMatcher(None, *pieces, autojunk=False).get_opcodes():
        for side, (start, end) in enumerate((bounds[:2], bounds[2:])):
            text = joint.join(pieces[side][start:end])
            if text:
                written[side].append(text if kind == "equal" else bold.sub(_BOUNDS, text))
    first, second = (escape(joint.join(parts)).translate(_TO_BOLD) for parts in written)
    return first, second
