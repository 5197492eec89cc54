"""What is claimed of the topic aware transformer, beside what was measured here, by numbers alone."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from fairseq_ext.experiments.topics.measure import TOPICS_FILE, USED
from fairseq_ext.experiments.topics.results import TopicDesign, TopicResults, mean_figure
from fairseq_ext.experiments.topics.tables import tdm_pairs
from fairseq_ext.report.content import Below, Cell, Missing, Row, Table
from fairseq_ext.report.page import signed

HELD, DID_NOT_HOLD, UNDECIDED, NOT_MEASURED = "held", "did not hold", "no difference", "not measured"
_TITLE = "Claims"
_ALIKE = 1.0  # percent: up to which perplexities count as the same
_TOP = 10


def claims(results: TopicResults, design: TopicDesign) -> Table | Missing:
    """One row a claim and pair of systems."""
    makers = {
        "Topics beat fine-tuning at equal steps": _beat_fine_tuning,
        "Topics beat a trained output embedding without topics": _beat_output_embedding,
        "Topic distribution modelling helps": _tdm_helps,
        "Fine-tuning forgets": _fine_tuning_forgets,
        "Topics do not forget": _topics_keep,
        "Topics forget less than fine-tuning": _topics_forget_less,
    }
    groups = [(text, list(make(results, design))) for text, make in makers.items()]
    groups = [(text, rows) for text, rows in groups if rows]
    if all(row.cells[0].text == NOT_MEASURED for _, rows in groups for row in rows):
        return Missing(_TITLE, NOT_MEASURED)
    notes = [
        f"Perplexities of test lines; a lower one is claimed of the first system. Up to {_ALIKE:g}% apart they count "
        "as the same. No test of significance was made, and with one run each, small differences may be chance.",
        "The base stays within a model with topics as it was, for whoever leaves the topics and their output embedding "
        "out; what is asked here is what the model says with them.",
    ]
    below = Below(notes, [TOPICS_FILE.format("*")])
    return Table(_TITLE, "Claim", ["Verdict", "Figures"], groups, is_text=True, below=below)


def _beat_fine_tuning(results: TopicResults, design: TopicDesign) -> Iterator[Row]:
    for domain in design.systems.domains:
        for name in design.with_topics(domain):
            for other in _without_topics(design, domain, None):
                yield _compare(results, design, domain, name, other)


def _beat_output_embedding(results: TopicResults, design: TopicDesign) -> Iterator[Row]:
    for domain in design.systems.domains:
        for name in design.with_topics(domain):
            for other in _without_topics(design, domain, 0):
                yield _compare(results, design, domain, name, other)


def _tdm_helps(results: TopicResults, design: TopicDesign) -> Iterator[Row]:
    for domain in design.systems.domains:
        for pair in tdm_pairs(design, domain):
            row = _compare(results, design, domain, *pair)
            coherence = [mean_figure(design, name, partial(results.coherence, way=USED, top=_TOP)) for name in pair]
            dead = [mean_figure(design, name, lambda run: results.of_topics(run).get("dead")) for name in pair]
            said = [row.cells[1].text] if row.cells[0].text != NOT_MEASURED else []
            if coherence[0] is not None and coherence[1] is not None:
                said.append(f"coherence by use {coherence[0]:.2f}, {coherence[1]:.2f}".replace("-", "−"))
            if dead[0] is not None and dead[1] is not None:
                said.append(f"dead topics {dead[0]:g}, {dead[1]:g}")
            yield Row(row.name, [row.cells[0], Cell("; ".join(said))])


def _fine_tuning_forgets(results: TopicResults, design: TopicDesign) -> Iterator[Row]:
    for domain in design.systems.domains:
        for name in _without_topics(design, domain, None):
            yield _against_base(results, design, name, is_claimed_to_keep=False)


def _topics_keep(results: TopicResults, design: TopicDesign) -> Iterator[Row]:
    for domain in design.systems.domains:
        for name in design.with_topics(domain):
            yield _against_base(results, design, name, is_claimed_to_keep=True)


def _topics_forget_less(results: TopicResults, design: TopicDesign) -> Iterator[Row]:
    for domain in design.systems.domains:
        for name in design.with_topics(domain):
            for other in _without_topics(design, domain, None):
                pair = [mean_figure(design, each, results.base_perplexity) for each in (name, other)]
                yield _row(f"{name}, {other}", *pair)


def _compare(results: TopicResults, design: TopicDesign, domain: str, name: str, other: str) -> Row:
    """Whether the first has the lower perplexity, if both were trained equally long."""
    systems, title = design.systems.adapted, f"{name}, {other}"
    updates = [systems[each].updates for each in (name, other)]
    if updates[0] != updates[1]:
        return Row(title, [Cell("not comparable"), Cell(f"{updates[0]} and {updates[1]} updates")])
    return _row(title, *(mean_figure(design, n, partial(results.perplexity, domain=domain)) for n in (name, other)))


def _row(title: str, low: float | None, high: float | None) -> Row:
    if low is None or high is None:
        return Row(title, [Cell(NOT_MEASURED), Cell("")])
    change = 100 * (low / high - 1)
    verdict = UNDECIDED if abs(change) <= _ALIKE else HELD if change < 0 else DID_NOT_HOLD
    return Row(title, [Cell(verdict), Cell(f"{low:.2f}, {high:.2f} ({signed(change)}%)")])


def _against_base(results: TopicResults, design: TopicDesign, name: str, is_claimed_to_keep: bool) -> Row:
    base = design.systems.base
    before, after = (mean_figure(design, each, results.base_perplexity) for each in (base, name))
    if before is None or after is None:
        return Row(name, [Cell(NOT_MEASURED), Cell("")])
    change = 100 * (after / before - 1)
    verdict = HELD if (change <= _ALIKE) == is_claimed_to_keep else DID_NOT_HOLD
    return Row(name, [Cell(verdict), Cell(f"{after:.2f}, {base} {before:.2f} ({signed(change)}%)")])


def _without_topics(design: TopicDesign, domain: str, num_topics: int | None) -> list[str]:
    """Those that are fine-tuned as a whole (None), or have no more than an output embedding of their own (0)."""
    return [name for name, model in design.systems.of_domain(domain).items() if model.num_topics == num_topics]
