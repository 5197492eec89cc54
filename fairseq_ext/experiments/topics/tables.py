"""The tables of a report on topic models, after Tables 2 and 3 of the paper on the topic aware transformer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from fairseq_ext.experiments.topics.measure import (
    BASELINES_FILE,
    FORCED_FILE,
    NEAR,
    SAMPLES_FILE,
    TOPICS_FILE,
    USED,
)
from fairseq_ext.experiments.topics.results import (
    BASE_TEXT,
    DEAD,
    ENTROPY,
    LARGEST,
    PERPLEXITY,
    RESIDUAL_PERPLEXITY,
    RESIDUAL_SHARE,
    TopicDesign,
    TopicResults,
    baseline_name,
    coherence,
)
from fairseq_ext.metrics.text_metrics import METRICS, signatures
from fairseq_ext.report.content import Below, Cell, Example, Examples, Missing, Row, Table
from fairseq_ext.report.figures import (
    BEST,
    NOT_MEASURED,
    SPREAD,
    Figure,
    figure_rows,
    figure_table,
    table_of_rows,
)
from fairseq_ext.report.records import Measured

WAYS = {USED: "words by use", NEAR: "nearest words"}
TOP = 10  # words where one number of them must do
_SHOWN_WORDS = 10  # of a topic


def systems_table(results: TopicResults, design: TopicDesign, domain: str) -> Table | Missing:
    """The paper's Table 3: every system on a domain, with what is left of the base."""
    of = results.records.of_systems
    columns = [
        Figure("Perplexity", of(PERPLEXITY, domain), best=min),
        Figure("Topic 0 alone", of(RESIDUAL_PERPLEXITY, domain)),
        Figure("On the base’s text", of(PERPLEXITY, BASE_TEXT), best=min),
        Figure("Topic 0 alone there", of(RESIDUAL_PERPLEXITY, BASE_TEXT)),
        *(Figure(name, of(name, domain), ".1f", max) for name in METRICS),
    ]
    groups = [("", [design.systems.base]), ("", list(design.systems.of_domain(domain)))]
    title = f"Table 3. Systems: {domain}"
    below = Below(
        [*_text_notes(results, design, domain), *_updates_note(design, domain), BEST, SPREAD],
        [TOPICS_FILE.format("*")],
        signatures(),
    )
    return figure_table(title, "System", columns, groups, below)


def coherence_table(results: TopicResults, design: TopicDesign, domain: str) -> Table | Missing:
    """The paper's Table 2, left: coherence of topics by their first words, beside other topic models."""
    tops, record = design.evaluation.coherence, results.baselines.get(domain, {})
    ours = {f"{name}: {text}": (name, way, "") for way, text in WAYS.items() for name in design.with_topics(domain)}
    others = {name: (name, USED, domain) for name in map(baseline_name, record.get("topics", []))}
    found = ours | others

    def of_words(top: int, row: str) -> Measured | None:
        system, way, of = found[row]
        return results.records.figure(system, coherence(way, top), of)

    columns = [Figure(f"N = {top}", partial(of_words, top), best=max) for top in tops]
    notes = [
        "u_mass, the mean over topics; topic 0 is left out. Nearer to 0 is better. A pair of words that never share a "
        "line counts about −20, and lines are short.",
    ]
    if "lines" in record:
        notes.append(f"Over {record['lines']:,} training lines and {record['candidates']:,} candidate words.")
    files = [TOPICS_FILE.format("*"), BASELINES_FILE.format(domain)]
    groups = [("", list(ours)), ("Without a language model", list(others))]
    below = Below([*notes, BEST, SPREAD], files)
    return figure_table(f"Table 2. Coherence: {domain}", "Topics", columns, groups, below)


def usage_table(results: TopicResults, design: TopicDesign) -> Table | Missing:
    """How the topics of every system are used."""
    of = results.records.of_systems
    columns = [
        Figure("Entropy, bits", of(ENTROPY)),
        Figure("Dead topics", of(DEAD), ".0f"),
        Figure("Largest share, %", of(LARGEST), ".1f"),
        Figure("Share of topic 0, %", of(RESIDUAL_SHARE), ".1f"),
    ]
    groups = [(name, list(design.with_topics(name))) for name in design.systems.domains]
    notes = ["Of the mean of π over training lines, topic 0 included. Dead: less than a tenth of an even share."]
    below = Below([*notes, SPREAD], [TOPICS_FILE.format("*")])
    return figure_table("Use of topics", "System", columns, groups, below)


def tdm_table(results: TopicResults, design: TopicDesign) -> Table | Missing:
    """The ablation: systems that differ in topic distribution modelling alone."""
    groups, of = [], results.records.of_systems
    for domain in design.systems.domains:
        columns = [
            Figure("Perplexity", of(PERPLEXITY, domain), best=min),
            Figure("On the base’s text", of(PERPLEXITY, BASE_TEXT), best=min),
            Figure(f"Coherence, used, N = {TOP}", of(coherence(USED, TOP)), best=max),
            Figure(f"Coherence, nearest, N = {TOP}", of(coherence(NEAR, TOP)), best=max),
            Figure("Entropy, bits", of(ENTROPY)),
            Figure("Dead topics", of(DEAD), ".0f"),
            *(Figure(name, of(name, domain), ".1f", max) for name in ("Dist-2", "BLEU-2")),
        ]
        groups += [(f"{domain}: {pair[0]}", figure_rows(columns, pair)) for pair in tdm_pairs(design, domain)]
    notes = ["The first of each two is trained with topic distribution modelling, the other without."]
    title = "Ablation: topic distribution modelling"
    if not groups:
        return Missing(title, f"{NOT_MEASURED}: no two systems differ in it alone")
    headings = [column.heading for column in columns]
    below = Below([*notes, BEST, SPREAD], [TOPICS_FILE.format("*")])
    return table_of_rows(title, "System", headings, groups, below)


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
        return Missing(title, NOT_MEASURED)
    rows = [
        Row(
            f"{topic}",
            [
                Cell(f"{100 * share:.1f}"),
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
        return Missing(title, NOT_MEASURED)
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
        return Missing(title, NOT_MEASURED)
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


def _updates_note(design: TopicDesign, domain: str) -> list[str]:
    updates = {name: model.updates for name, model in design.systems.of_domain(domain).items()}
    if len(set(updates.values())) == 1:
        [number] = set(updates.values())
        return [f"All but the base were trained for {number:,} updates."] if number else []
    return [f"Updates: {', '.join(f'{name} {number}' for name, number in updates.items())}."]
