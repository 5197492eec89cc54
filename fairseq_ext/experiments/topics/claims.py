"""What is claimed of the topic aware transformer, beside what was measured here, by numbers alone."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from itertools import product

from fairseq_ext.experiments.topics.measure import TOPICS_FILE, USED
from fairseq_ext.experiments.topics.results import BASE_TEXT, DEAD, PERPLEXITY, TopicDesign, TopicResults, coherence
from fairseq_ext.experiments.topics.tables import TOP, tdm_pairs
from fairseq_ext.metrics.bootstrap import SIGNIFICANT
from fairseq_ext.report.content import Below, Cell, Missing, Row, Table
from fairseq_ext.report.page import signed
from fairseq_ext.report.records import Measured
from fairseq_ext.report.significance import are_apart, have_runs

HELD, DID_NOT_HOLD, UNDECIDED, NOT_MEASURED = "held", "did not hold", "no difference", "not measured"
_TITLE = "Claims"
_ALIKE = 1.0  # percent: up to which perplexities of single runs count as the same


@dataclass(frozen=True)
class Claim:
    """A claim: in words, the systems of a domain that it is made of, and what is said of two of them."""

    text: str
    pairs: Callable[[TopicDesign, str], Iterable[tuple[str, str]]]
    row: Callable[[TopicResults, TopicDesign, str, str, str], Row]


def claims(results: TopicResults, design: TopicDesign) -> Table | Missing:
    """One row a claim and pair of systems."""
    groups = [
        (claim.text, [claim.row(results, design, domain, *pair) for domain, pair in _pairs(design, claim)])
        for claim in CLAIMS
    ]
    groups = [(text, rows) for text, rows in groups if rows]
    if all(row.cells[0].text == NOT_MEASURED for _, rows in groups for row in rows):
        return Missing(_TITLE, NOT_MEASURED)
    notes = [
        "Perplexities of test lines; a lower one is claimed of the first system. Two that have several runs differ "
        f"where these show it (Welch’s t-test, p < {SIGNIFICANT:g}); others, and the base, count as the "
        f"same up to {_ALIKE:g}% apart, and small differences of theirs may be chance.",
        "The base stays within a model with topics as it was, for whoever leaves the topics and their output embedding "
        "out; what is asked here is what the model says with them.",
    ]
    below = Below(notes, [TOPICS_FILE.format("*")])
    return Table(_TITLE, "Claim", ["Verdict", "Figures"], groups, is_text=True, below=below)


def _pairs(design: TopicDesign, claim: Claim) -> list[tuple[str, tuple[str, str]]]:
    return [(domain, pair) for domain in design.systems.domains for pair in claim.pairs(design, domain)]


def _topics_against(num_topics: int | None) -> Callable[[TopicDesign, str], Iterable[tuple[str, str]]]:
    """Every system with topics and every one that is fine-tuned as a whole (None), or in its output embedding (0)."""
    return lambda design, domain: product(design.with_topics(domain), _without_topics(design, domain, num_topics))


def _topics_and_base(design: TopicDesign, domain: str) -> Iterable[tuple[str, str]]:
    return product(design.with_topics(domain), [design.systems.base])


def _fine_tuned_and_base(design: TopicDesign, domain: str) -> Iterable[tuple[str, str]]:
    return product(_without_topics(design, domain, None), [design.systems.base])


def _compare_tdm(results: TopicResults, design: TopicDesign, domain: str, name: str, other: str) -> Row:
    """The same, with what their topics are like."""
    row = _compare(results, design, domain, name, other)
    said = [row.cells[1].text] if row.cells[0].text != NOT_MEASURED else []
    of = results.records.mean
    found, dead = ((of(name, metric), of(other, metric)) for metric in (coherence(USED, TOP), DEAD))
    if None not in found:
        said.append(f"coherence by use {found[0]:.2f}, {found[1]:.2f}".replace("-", "−"))
    if None not in dead:
        said.append(f"dead topics {dead[0]:.2g}, {dead[1]:.2g}")
    return Row(row.name, [row.cells[0], Cell("; ".join(said))])


def _forgets_less(results: TopicResults, design: TopicDesign, domain: str, name: str, other: str) -> Row:
    return _row(f"{name}, {other}", *(results.records.figure(each, PERPLEXITY, BASE_TEXT) for each in (name, other)))


def _compare(results: TopicResults, design: TopicDesign, domain: str, name: str, other: str) -> Row:
    """Whether the first has the lower perplexity, if both were trained equally long."""
    systems, title = design.systems.adapted, f"{name}, {other}"
    updates = [systems[each].updates for each in (name, other)]
    if updates[0] != updates[1]:
        return Row(title, [Cell("not comparable"), Cell(f"{updates[0]} and {updates[1]} updates")])
    return _row(title, *(results.records.figure(each, PERPLEXITY, domain) for each in (name, other)))


def _row(title: str, low: Measured | None, high: Measured | None) -> Row:
    if low is None or high is None:
        return Row(title, [Cell(NOT_MEASURED), Cell("")])
    change = 100 * (low.mean / high.mean - 1)
    differ = are_apart(low, high) if have_runs(low, high) else abs(change) > _ALIKE
    verdict = UNDECIDED if not differ else HELD if change < 0 else DID_NOT_HOLD
    return Row(title, [Cell(verdict), Cell(f"{low.mean:.2f}, {high.mean:.2f} ({signed(change)}%)")])


def _against_base(keeps: bool, results: TopicResults, design: TopicDesign, domain: str, name: str, base: str) -> Row:
    """Whether a system is, as it is claimed, as good as the base on the base's text, or worse."""
    after, before = (results.records.mean(each, PERPLEXITY, BASE_TEXT) for each in (name, base))
    if before is None or after is None:
        return Row(name, [Cell(NOT_MEASURED), Cell("")])
    change = 100 * (after / before - 1)
    verdict = HELD if (change <= _ALIKE) == keeps else DID_NOT_HOLD
    return Row(name, [Cell(verdict), Cell(f"{after:.2f}, {base} {before:.2f} ({signed(change)}%)")])


def _without_topics(design: TopicDesign, domain: str, num_topics: int | None) -> list[str]:
    return [name for name, model in design.systems.of_domain(domain).items() if model.num_topics == num_topics]


CLAIMS = (
    Claim("Topics beat fine-tuning at equal steps", _topics_against(None), _compare),
    Claim("Topics beat a trained output embedding without topics", _topics_against(0), _compare),
    Claim("Topic distribution modelling helps", tdm_pairs, _compare_tdm),
    Claim("Fine-tuning forgets", _fine_tuned_and_base, partial(_against_base, False)),
    Claim("Topics do not forget", _topics_and_base, partial(_against_base, True)),
    Claim("Topics forget less than fine-tuning", _topics_against(None), _forgets_less),
)
