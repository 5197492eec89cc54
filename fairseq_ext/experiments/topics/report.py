"""Report of the topics recipe: Tables 2 and 3 of the Topic Aware Transformer paper by domain, and words of the topics.

The paper uses GPT-2 as the base, and different and far larger text.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from fairseq_ext.base.json_file import read_json
from fairseq_ext.experiments.metrics.records import Dimension, Records
from fairseq_ext.experiments.metrics.render import Page
from fairseq_ext.experiments.metrics.tables import Column, Table
from fairseq_ext.experiments.report import compare_systems, metric_column, tuning_tables
from fairseq_ext.experiments.topics.config import (
    BASE_TEXT,
    COHERENCE,
    DEAD,
    ENTROPY,
    NEAR,
    PERPLEXITY,
    TEXT_METRICS,
    TOPIC_0,
    USED,
    Topics,
)

_PAPER = "{} in the paper on the Topic Aware Transformer."
_SHOWN_WORDS = 10  # words per topic
WAYS = {USED: "Words by use", NEAR: "Nearest words"}


def page(config: Topics, records: Records) -> Page:
    """Create the report from records and the files of topics."""
    sections = {domain: _of_domain(config, records, domain) for domain in config.domains}
    plain = [system for system in config.adapted if not system.has_topics]
    # By default, systems with topics are compared with those without on the same domain.
    pairs = config.compare or {
        one.name: tuple(other.name for other in plain if other.domains == one.domains)
        for one in config.adapted
        if one.has_topics
    }
    compared = compare_systems(records, pairs, PERPLEXITY, [*config.domains, BASE_TEXT])
    summary = f"Topic models: {len(records.systems(PERPLEXITY))} systems on {', '.join(config.domains)}."
    return Page(config.work_dir.name, summary, {**sections, "Tuning": tuning_tables(records)}, compared)


def _of_domain(config: Topics, records: Records, domain: str) -> list[Table]:
    return [
        systems_table(config, records, domain),
        *([coherence_table(config, records, domain)] if config.topics.coherence else []),
        usage_table(records, domain),
        *topic_tables(config, domain),
    ]


def systems_table(config: Topics, records: Records, domain: str) -> Table:
    """Create Table 3: results of all systems on a domain, and on the base's own text."""
    of = partial(metric_column, records)
    columns = [
        of("Perplexity", PERPLEXITY, domain, best=min),
        of("Topic 0 alone", PERPLEXITY, domain, dims=TOPIC_0),
        of("Base text", PERPLEXITY, BASE_TEXT, best=min),
        of("Base text, topic 0 alone", PERPLEXITY, BASE_TEXT, dims=TOPIC_0),
        *(of(metric, metric, domain, form=".1f", best=max) for metric in TEXT_METRICS),
    ]
    how = config.topics
    notes = [
        "Perplexity is per token, including ends of lines. Each line is scored separately and truncated to "
        f"{config.tokens_per_sample} tokens.",
        f"Base text: perplexity of the mean loss on {how.base_lines} test lines of each domain of the base.",
        f"The other metrics, in percent, are of texts that continue the first {how.prompt_words} words of test lines "
        f"to at most {how.max_len} tokens, sampled from the {how.top_k} most probable tokens at temperature "
        f"{how.temperature:g}.",
        _PAPER.format("Table 3"),
    ]
    return Table(f"Systems: {domain}", "System", _systems(records, PERPLEXITY, domain), columns, notes)


def coherence_table(config: Topics, records: Records, domain: str) -> Table:
    """Create Table 2: coherence of the first words of topics, in comparison with other topic models."""
    tops = config.topics.coherence
    columns = [
        metric_column(records, f"{text}, N = {top}", COHERENCE, domain, dims={"words": way, "top": top}, best=max)
        for way, text in WAYS.items()
        for top in tops
    ]
    rows = _systems(records, COHERENCE, domain, words=USED, top=tops[0])
    note = (
        "Mean u_mass of the first N words over all topics except topic 0; closer to 0 is better. A pair of words that "
        "never share a line counts about −20, which is common with short lines."
    )
    return Table(f"Coherence of the topics: {domain}", "Topics", rows, columns, [note, _PAPER.format("Table 2")])


def usage_table(records: Records, domain: str) -> Table:
    """Create a table of how the systems use their topics."""
    columns = [
        metric_column(records, "Entropy, bits", ENTROPY, domain),
        metric_column(records, "Dead topics", DEAD, domain, form=".1f"),
    ]
    note = (
        "Computed from the mean weights over training lines, including topic 0. Dead topics have less than a tenth of "
        "a uniform share."
    )
    return Table(f"Use of topics: {domain}", "System", _systems(records, ENTROPY, domain), columns, [note])


def _systems(records: Records, metric: str, domain: str, **dims: Dimension) -> list[str]:
    return [system for system in records.systems(metric) if records.of(system, metric, domain, **dims)]


def topic_tables(config: Topics, domain: str) -> Iterator[Table]:
    """Create a table of the topics of each system's first run."""
    for system in config.adapted:
        run = config.runs[system.name][0]
        path = config.topics_file(run)
        if system.domains == [domain] and system.has_topics and path.is_file():
            yield _topic_table(run.name, read_json(path, "measure again")["topics"])


def _topic_table(run: str, topics: Sequence[Mapping[str, Any]]) -> Table:
    def words(way: str) -> Column:
        return Column(WAYS[way], lambda row: ", ".join(topics[row][way][:_SHOWN_WORDS]), is_text=True)

    columns = [Column("Share, %", lambda row: 100 * topics[row]["share"], ".1f"), words(USED), words(NEAR)]
    note = (
        "Words by use are typical of the tokens that a topic predicts, by p(w|z)·log(p(w|z)/p(w)). Nearest words have "
        "output embeddings with the highest cosine to the topic’s."
    )
    return Table(f"Topics: {run}", "Topic", range(len(topics)), columns, [note])
