"""The report: Tables 2 and 3 of the paper on the topic aware transformer by domain, and what topics and texts are.

The paper's base is GPT-2; its text is other and far more.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from fairseq_ext.engine.fairseq_cli import option_of
from fairseq_ext.engine.steps import Step
from fairseq_ext.inputs.json_file import read_json
from fairseq_ext.metrics.records import Records
from fairseq_ext.metrics.render import Page
from fairseq_ext.metrics.tables import Column, Table, escape
from fairseq_ext.recipes.report import (
    compare_systems,
    metric_column,
    records_files,
    report_step,
    training_files,
    tuning_tables,
)
from fairseq_ext.recipes.topics.config import TopicModel, Topics
from fairseq_ext.recipes.topics.measurement import (
    BASE_TEXT,
    DEAD,
    ENTROPY,
    LARGEST,
    NEAR,
    PERPLEXITY,
    SAMPLES_FILE,
    TOPIC_0_PERPLEXITY,
    TOPIC_0_SHARE,
    TOPICS_FILE,
    USED,
    all_records,
    coherence,
    measured_text,
    topic_steps,
)

_VERSION = 6
_SHOWN_WORDS, _SHOWN_TEXTS = 10, 8  # of a topic; of a system
WAYS = {USED: "Words by use", NEAR: "Nearest words"}


def report(config: Topics) -> Step:
    """The step that writes the report."""
    texts = [measured_text(config, run, name) for run in config.all_runs for name in (SAMPLES_FILE, TOPICS_FILE)]
    sources = [*records_files(topic_steps(config)), *texts, *training_files(config)]

    return report_step(config, sources, _VERSION, partial(all_records, config), partial(page, config))


def page(config: Topics, records: Records) -> Page:
    """The report of records, and of the texts beside them."""
    sections = {domain: _of_domain(config, records, domain) for domain in config.domains}
    compared = compare_systems(
        records, config.compare or default_pairs(config), PERPLEXITY, [*config.domains, BASE_TEXT]
    )
    summary = f"Topic models: {len(records.systems(PERPLEXITY))} systems on {', '.join(config.domains)}."
    return Page(config.work_dir.name, summary, {**sections, "Tuning": tuning_tables(records)}, compared)


def default_pairs(config: Topics) -> dict[str, list[str]]:
    """Each system with topics, and those of its domain without topics or without topic distribution modelling."""
    return {
        system.name: [other.name for other in config.adapted if _is_baseline(other, system)]
        for system in config.adapted
        if system.num_topics
    }


def _is_baseline(other: TopicModel, system: TopicModel) -> bool:
    return other.domains == system.domains and (not other.num_topics or system.adds_only_tdm_to(other))


def _of_domain(config: Topics, records: Records, domain: str) -> list[Table | str]:
    return [
        systems_table(config, records, domain),
        *([coherence_table(config, records, domain)] if config.topics.coherence else []),
        usage_table(records, domain),
        *topic_tables(config, domain),
        *texts_of(config, domain),
    ]


def systems_table(config: Topics, records: Records, domain: str) -> Table:
    """Table 3: every system on a domain, and what is left of the base."""
    from fairseq_ext.recipes.topics.text_metrics import METRICS, signatures

    of = partial(metric_column, records)
    columns = [
        of("Perplexity", PERPLEXITY, domain, best=min),
        of("Topic 0 alone", TOPIC_0_PERPLEXITY, domain),
        of("Base text", PERPLEXITY, BASE_TEXT, best=min),
        of("Base text, topic 0 alone", TOPIC_0_PERPLEXITY, BASE_TEXT),
        *(of(metric, metric, domain, form=".1f", best=max) for metric in METRICS),
        Column("Updates", lambda system: option_of(config.systems[system].options, "max-update"), ",d"),
    ]
    how = config.topics
    notes = [
        "Perplexity per token, ends of lines included, a line at a time, of which the first "
        f"{config.tokens_per_sample} tokens count.",
        f"Base text: {how.base_lines} test lines of each domain of the base, perplexity of the mean loss.",
        f"Texts continue the first {how.prompt_words} words of test lines at temperature {how.temperature:g} with the "
        f"{how.top_k} most probable tokens, to {how.max_len} tokens at most. Their metrics are in percent.",
        " ".join(f"{name}: {signature}." for name, signature in signatures().items()),
    ]
    return Table(f"Table 3. Systems: {domain}", "System", _systems(records, PERPLEXITY, domain), columns, notes)


def coherence_table(config: Topics, records: Records, domain: str) -> Table:
    """Table 2: the coherence of topics by their first words, beside other topic models."""
    tops = config.topics.coherence
    columns = [
        metric_column(records, f"{text}, N = {top}", coherence(way, top), domain, best=max)
        for way, text in WAYS.items()
        for top in tops
    ]
    rows = _systems(records, coherence(USED, tops[0]), domain)
    note = (
        "u_mass of the first N words, the mean over topics without topic 0; nearer to 0 is better. A pair of words "
        "that never share a line counts about −20, and lines are short."
    )
    return Table(f"Table 2. Coherence: {domain}", "Topics", rows, columns, [note])


def usage_table(records: Records, domain: str) -> Table:
    """How the topics of the systems are used."""
    of = partial(metric_column, records)
    columns = [
        of("Entropy, bits", ENTROPY, domain),
        of("Dead topics", DEAD, domain, form=".1f"),
        of("Largest share, %", LARGEST, domain, form=".1f"),
        of("Share of topic 0, %", TOPIC_0_SHARE, domain, form=".1f"),
    ]
    note = "Of the mean weights over training lines, with topic 0. Dead: less than a tenth of a uniform share."
    return Table(f"Use of topics: {domain}", "System", _systems(records, ENTROPY, domain), columns, [note])


def _systems(records: Records, metric: str, domain: str) -> list[str]:
    return [system for system in records.systems(metric) if records.of(system, metric, domain)]


def topic_tables(config: Topics, domain: str) -> list[Table]:
    """The topics of the first run of each system."""
    systems = [system.name for system in config.adapted if system.domains == [domain] and system.num_topics]
    runs = [config.runs[name][0] for name in systems]
    files = {run.name: measured_text(config, run, TOPICS_FILE) for run in runs}
    return [_topic_table(name, read_json(path, "measure again")) for name, path in files.items() if path.is_file()]


def _topic_table(run: str, found: Mapping[str, Any]) -> Table:
    topics, prompt = {str(number): topic for number, topic in enumerate(found["topics"])}, found["prompt"]
    columns = [
        Column("Share, %", lambda row: 100 * topics[row]["share"], ".1f"),
        Column(WAYS[USED], lambda row: _first_words(topics[row][USED]), is_text=True),
        Column(WAYS[NEAR], lambda row: _first_words(topics[row][NEAR]), is_text=True),
        Column(f"{prompt['text']} …", lambda row: topics[row]["written"], is_text=True),
    ]
    notes = [
        "By use: typical of the tokens that a topic predicts, by p(w|z)·log(p(w|z)/p(w)). Nearest: by cosine of the "
        "output embedding and the topic’s. The last column is a text by this topic alone, with the same random "
        f"numbers; the original is: {prompt['reference']}",
    ]
    return Table(f"Topics: {run}", "Topic", list(topics), columns, notes)


def _first_words(words: Sequence[str]) -> str:
    return ", ".join(words[:_SHOWN_WORDS])


def texts_of(config: Topics, domain: str) -> list[str]:
    """Texts by the first run of each system, after evenly spaced prompts."""
    names = [config.base.name, *(system.name for system in config.adapted if system.domains == [domain])]
    files = {name: measured_text(config, config.runs[name][0], SAMPLES_FILE) for name in names}
    found = {name: read_json(path, "measure again")[domain] for name, path in files.items() if path.is_file()}
    number = min(map(len, found.values()), default=0)
    shown = range(0, number, max(1, number // _SHOWN_TEXTS))[:_SHOWN_TEXTS]
    samples = [_sample({name: texts[place] for name, texts in found.items()}) for place in shown]
    return [f"### Texts: {escape(domain)}\n\nEvenly spaced, not hand-picked.", *samples] if samples else []


def _sample(by_system: Mapping[str, Mapping[str, str]]) -> str:
    prompt = next(iter(by_system.values()))
    texts = {"original": prompt["reference"], **{name: sample["written"] for name, sample in by_system.items()}}
    lines = [f"* *{escape(name)}*: {escape(text)}" for name, text in texts.items()]
    return "\n".join([f"**{escape(prompt['text'])} …**", "", *lines])
