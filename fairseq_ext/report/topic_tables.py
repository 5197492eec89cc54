"""The tables of a report on topic models, after Tables 2 and 3 of the paper on the topic aware transformer."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from fairseq_ext.report.content import NOTHING, Below, Cell, Example, Examples, Missing, Row, Table
from fairseq_ext.report.topic_results import Measure, TopicDesign, TopicResults, figures
from fairseq_ext.topics.text_metrics import METRICS, signatures
from fairseq_ext.topics.topic_steps import (
    BASELINES_FILE,
    FORCED_FILE,
    NEAR,
    RESIDUAL,
    SAMPLES_FILE,
    TOPICS_FILE,
    USED,
)

WAYS = {USED: "words by use", NEAR: "nearest words"}
_TOP = 10  # words where one number of them must do
_SHOWN_WORDS = 10  # of a topic
_NOT_MEASURED = "not measured"


@dataclass(frozen=True)
class Column:
    """A figure of every system.

    Attributes:
        heading: of the column.
        measure: the figure.
        best: ``min`` or ``max``; None if there is no better or worse.
        digits: behind the point.
    """

    heading: str
    measure: Measure
    best: Callable[..., float] | None = None
    digits: int = 2


def systems_table(results: TopicResults, design: TopicDesign, domain: str) -> Table | Missing:
    """The paper's Table 3: every system on a domain, with what is left of the base."""
    columns = [
        Column("Perplexity", lambda run: results.perplexity(run, domain), min),
        Column("Topic 0 alone", lambda run: results.perplexity(run, domain, RESIDUAL)),
        Column("On the base’s text", results.base_perplexity, min),
        Column("Topic 0 alone there", partial(results.base_perplexity, over=RESIDUAL)),
        *(Column(name, partial(results.metric, domain=domain, name=name), max, 1) for name in METRICS),
    ]
    base, others = design.systems.base, list(design.systems.of_domain(domain))
    first, *rest = _rows(design, columns, [base, *others])
    title = f"Table 3. Systems: {domain}"
    below = Below(
        [*_text_notes(results, design, domain), _updates_note(design, domain)],
        [TOPICS_FILE.format("*")],
        signatures(),
    )
    return _table(title, "System", columns, [("", [first]), ("", rest)], below)


def coherence_table(results: TopicResults, design: TopicDesign, domain: str) -> Table | Missing:
    """The paper's Table 2, left: coherence of topics by their first words, beside other topic models."""
    tops = design.evaluation.coherence
    columns = [Column(f"N = {top}", lambda run: None, max) for top in tops]
    ours = []
    for way, name in WAYS.items():
        measures = [
            replace(column, measure=partial(results.coherence, way=way, top=top))
            for column, top in zip(columns, tops, strict=True)
        ]
        rows = _plain_rows(design, measures, list(design.with_topics(domain)))
        ours += [Row(f"{row.name}: {name}", row.cells) for row in rows]
    record = results.baselines.get(domain, {})
    others = [
        Row(
            f"{found['kind'].upper()}, {found['num_topics']} topics",
            [Cell(_number(found["coherence"][str(top)], 2)) for top in tops],
        )
        for found in record.get("topics", [])
    ]
    rows = _mark_best([*ours, *others], columns)
    notes = [
        "u_mass, the mean over topics; topic 0 is left out. Nearer to 0 is better. A pair of words that never share a "
        "line counts about −20, and lines are short.",
    ]
    if "lines" in record:
        notes.append(f"Over {record['lines']:,} training lines and {record['candidates']:,} candidate words.")
    files = [TOPICS_FILE.format("*"), BASELINES_FILE.format(domain)]
    groups = [("", rows[: len(ours)]), ("Without a language model", rows[len(ours) :])]
    return _table(f"Table 2. Coherence: {domain}", "Topics", columns, groups, Below(notes, files))


def usage_table(results: TopicResults, design: TopicDesign) -> Table | Missing:
    """How the topics of every system are used."""

    def of_usage(figure: Callable[[Sequence[float]], float]) -> Measure:
        return lambda run: figure(usage) if (usage := results.of_topics(run).get("usage")) else None

    columns = [
        Column("Entropy, bits", lambda run: results.of_topics(run).get("entropy")),
        Column("Dead topics", lambda run: results.of_topics(run).get("dead"), digits=0),
        Column("Largest share, %", of_usage(lambda usage: 100 * max(usage)), digits=1),
        Column("Share of topic 0, %", of_usage(lambda usage: 100 * usage[0]), digits=1),
    ]
    groups = [(name, _rows(design, columns, list(design.with_topics(name)))) for name in design.systems.domains]
    notes = ["Of the mean of π over training lines, topic 0 included. Dead: less than a tenth of an even share."]
    return _table("Use of topics", "System", columns, groups, Below(notes, [TOPICS_FILE.format("*")]))


def tdm_table(results: TopicResults, design: TopicDesign) -> Table | Missing:
    """The ablation: systems that differ in topic distribution modelling alone."""
    groups = []
    for domain in design.systems.domains:
        columns = [
            Column("Perplexity", partial(results.perplexity, domain=domain), min),
            Column("On the base’s text", results.base_perplexity, min),
            Column(f"Coherence, used, N = {_TOP}", partial(results.coherence, way=USED, top=_TOP), max),
            Column(f"Coherence, nearest, N = {_TOP}", partial(results.coherence, way=NEAR, top=_TOP), max),
            Column("Entropy, bits", lambda run: results.of_topics(run).get("entropy")),
            Column("Dead topics", lambda run: results.of_topics(run).get("dead"), digits=0),
            *(Column(name, partial(results.metric, domain=domain, name=name), max, 1) for name in ("Dist-2", "BLEU-2")),
        ]
        groups += [(f"{domain}: {pair[0]}", _rows(design, columns, list(pair))) for pair in tdm_pairs(design, domain)]
    notes = ["The first of each two is trained with topic distribution modelling, the other without."]
    title = "Ablation: topic distribution modelling"
    if not groups:
        return Missing(title, f"{_NOT_MEASURED}: no two systems differ in it alone")
    return _table(title, "System", columns, groups, Below(notes, [TOPICS_FILE.format("*")]))


def tdm_pairs(design: TopicDesign, domain: str) -> list[tuple[str, str]]:
    """Systems of a domain that differ in topic distribution modelling alone, the one that has it first."""
    models = design.with_topics(domain)
    return [
        (name, other)
        for name, model in models.items()
        for other, without in models.items()
        if model.has_tdm and not without.has_tdm and replace(model, tdm="none") == without
    ]


def words_table(results: TopicResults, run: str) -> Table | Missing:
    """The topics of a run, by their words."""
    found, title = results.of_topics(run), f"Topics: {run}"
    if not found:
        return Missing(title, _NOT_MEASURED)
    rows = [
        Row(
            f"{topic}",
            [
                Cell(_number(100 * share, 1)),
                *(Cell(", ".join(found["words"][way][topic][:_SHOWN_WORDS])) for way in WAYS),
            ],
        )
        for topic, share in enumerate(found["usage"])
    ]
    notes = [
        "By use: typical of the tokens that a topic predicts, by p(w|z)·log(p(w|z)/p(w)). Nearest: by cosine of the "
        "output embedding and the topic’s. Topic 0 leaves the base’s states as they are."
    ]
    columns = ["Share, %", "Words by use", "Nearest words"]
    return Table(title, "Topic", columns, [("", rows)], is_text=True, below=Below(notes, [TOPICS_FILE.format(run)]))


def samples_of(results: TopicResults, design: TopicDesign, domain: str) -> Examples | Missing:
    """What the systems of a domain write from the same words."""
    title = f"Texts: {domain}"
    names = [design.systems.base, *design.systems.of_domain(domain)]
    found = {n: results.samples[design.runs[n][0]][domain] for n in names if design.runs[n][0] in results.samples}
    if not found:
        return Missing(title, _NOT_MEASURED)
    texts = next(iter(found.values()))
    step = max(1, len(texts) // design.evaluation.samples)
    examples = [
        Example(
            f"{texts[number]['text']} …",
            [("as it was", texts[number]["reference"]), *((n, each[number]["written"]) for n, each in found.items())],
        )
        for number in range(0, len(texts), step)[: design.evaluation.samples]
    ]
    return Examples(
        title, examples, ("", ""), Below(["Every so many-th of all, not chosen."], [SAMPLES_FILE.format("*")])
    )


def forced_of(results: TopicResults, design: TopicDesign, run: str) -> Examples | Missing:
    """What each topic of a run alone makes of the same words."""
    title, record, found = f"One topic at a time: {run}", results.forced.get(run), results.of_topics(run)
    if record is None or not found:
        return Missing(title, _NOT_MEASURED)
    names = [f"{number}: {', '.join(words[:3])}" for number, words in enumerate(found["words"][USED])]
    lines = [("as it was", record["reference"]), *zip(names, record["written"], strict=True)]
    notes = ["Each topic with its first words by use, drawn with the same random numbers."]
    return Examples(title, [Example(f"{record['text']} …", lines)], ("", ""), Below(notes, [FORCED_FILE.format(run)]))


def _text_notes(results: TopicResults, design: TopicDesign, domain: str) -> list[str]:
    records = [results.topics[run] for runs in design.runs.values() for run in runs if run in results.topics]
    found: Mapping[str, Any] | None = next((r["texts"][domain] for r in records if domain in r["texts"]), None)
    if found is None:
        return []
    lines = sum(each["lines"] for each in records[0]["base"].values())
    options = design.evaluation
    notes = [
        f"Perplexity per token, ends of lines included, over {found['lines']:,} test lines of "
        f"{found['tokens']:,} tokens, a line at a time; {found['cut']:,} tokens beyond the first "
        f"{records[0]['tokens_per_sample']} of a line are left out.",
        f"The base’s text: {lines:,} test lines of {len(records[0]['base'])} domains, the perplexity of the mean loss."
        if lines
        else "",
        f"Texts go on from the first {options.prompt_words} words of {found['metrics']['prompts']:,} test lines, with "
        f"temperature {options.temperature:g} and the {options.top_k} most probable tokens, to {options.max_len} "
        "tokens at most. Their metrics are in percent.",
    ]
    return [note for note in notes if note]


def _updates_note(design: TopicDesign, domain: str) -> str:
    updates = {name: model.updates for name, model in design.systems.of_domain(domain).items()}
    if len(set(updates.values())) == 1:
        [number] = set(updates.values())
        return f"All but the base were trained for {number:,} updates." if number else ""
    return f"Updates: {', '.join(f'{name} {number}' for name, number in updates.items())}."


def _rows(design: TopicDesign, columns: Sequence[Column], names: Sequence[str]) -> list[Row]:
    return _mark_best(_plain_rows(design, columns, names), columns)


def _plain_rows(design: TopicDesign, columns: Sequence[Column], names: Sequence[str]) -> list[Row]:
    return [Row(name, [_cell(figures(design, name, c.measure), c.digits) for c in columns]) for name in names]


def _mark_best(rows: Sequence[Row], columns: Sequence[Column]) -> list[Row]:
    """Mark the best of every column that has one, equal figures alike, where there are several."""
    marked = []
    for number, column in enumerate(columns):
        cells = [row.cells[number] for row in rows]
        known = [_value(cell) for cell in cells if cell != NOTHING]
        best = column.best(known) if column.best and len(known) > 1 else None
        marked.append([replace(cell, is_best=cell != NOTHING and _value(cell) == best) for cell in cells])
    return [Row(row.name, [column[number] for column in marked]) for number, row in enumerate(rows)]


def _table(
    title: str, corner: str, columns: Sequence[Column], groups: Sequence[tuple[str, Sequence[Row]]], below: Below
) -> Table | Missing:
    cells = [cell for _, rows in groups for row in rows for cell in row.cells]
    if all(cell == NOTHING for cell in cells):
        return Missing(title, _NOT_MEASURED)
    notes = [note for note in below.notes if note]
    notes += ["Bold is the best of a column."] if any(cell.is_best for cell in cells) else []
    notes += ["± is the standard deviation over training runs."] if any(cell.note for cell in cells) else []
    groups = [(heading, rows) for heading, rows in groups if rows]
    return Table(title, corner, [c.heading for c in columns], groups, below=replace(below, notes=notes))


def _cell(values: Sequence[float], digits: int) -> Cell:
    if not values:
        return NOTHING
    note = f"±{statistics.stdev(values):.{digits}f}" if len(values) > 1 else ""
    return Cell(_number(statistics.fmean(values), digits), note)


def _number(value: float, digits: int) -> str:
    return f"{value:.{digits}f}".replace("-", "−")


def _value(cell: Cell) -> float:
    return float(cell.text.replace("−", "-"))
