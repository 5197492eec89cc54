"""The report of an experiment with topic models: a page for people, the same as Markdown, and its pictures.

All figures come from the records that other steps left; what was not measured is said to be missing.
"""

from __future__ import annotations

from pathlib import Path

from fairseq_ext.engine.steps import Step
from fairseq_ext.experiments.topics import tables
from fairseq_ext.experiments.topics.claims import claims
from fairseq_ext.experiments.topics.config import TopicExperiment
from fairseq_ext.experiments.topics.pictures import draw_gains, draw_usage
from fairseq_ext.experiments.topics.results import (
    PERPLEXITY,
    TopicDesign,
    TopicResults,
    read_results,
    result_files,
)
from fairseq_ext.experiments.tuning_report import TuningReport
from fairseq_ext.report.content import Block, Report, Section
from fairseq_ext.report.significance import describe_range
from fairseq_ext.report.writing import find_reading, reading_sections

_VERSION = 5


def report_step(experiment: TopicExperiment) -> Step:
    """The step that writes ``report/`` of what there is, so make it when the other steps have run.

    Raises:
        InputError: naming a reading that is not there.
    """
    tuning = TuningReport.of(experiment, experiment.trained_systems, experiment.runs.__getitem__)
    options = {"version": _VERSION, "design": repr(TopicDesign.of(experiment))}
    return tuning.step(result_files(experiment), _reading_of(experiment), options, lambda: make_report(experiment))


def make_report(experiment: TopicExperiment) -> Report:
    """Everything that the report says."""
    design, results = TopicDesign.of(experiment), read_results(experiment)
    gains, usage = draw_gains(results, design), draw_usage(results, design)
    sections = [
        *reading_sections(_reading_of(experiment)),
        Section("claims", "Claims", [claims(results, design), *([gains] if gains else [])]),
        *(
            Section(f"systems-{domain}", f"Systems: {domain}", [tables.systems_table(results, design, domain)])
            for domain in design.systems.domains
        ),
        Section("tdm", "Topic distribution modelling", [tables.tdm_table(results, design)]),
        Section("coherence", "Coherence", [tables.coherence_table(results, design, d) for d in design.systems.domains]),
        Section("usage", "Use of topics", [tables.usage_table(results, design), *([usage] if usage else [])]),
        *(_words_section(results, design, domain) for domain in design.systems.domains),
        *(_texts_section(results, design, domain) for domain in design.systems.domains),
    ]
    return Report(
        f"Experiment report: {design.name}",
        _lead(results, design),
        _tiles(results, design),
        sections,
        [
            "Tables are numbered as in “Topic Aware Transformer”, whose base is GPT-2, and whose text is other and far "
            "more. Files are named relative to the experiment’s folder."
        ],
        results.records,
    )


def _reading_of(experiment: TopicExperiment) -> Path | None:
    return find_reading(experiment.path, "topics: reading", experiment.topics.reading)


def _words_section(results: TopicResults, design: TopicDesign, domain: str) -> Section:
    runs = [run for name in design.with_topics(domain) for run in design.runs[name]]
    return Section(f"topics-{domain}", f"Topics: {domain}", [tables.words_table(results, run) for run in runs])


def _texts_section(results: TopicResults, design: TopicDesign, domain: str) -> Section:
    blocks: list[Block] = [tables.samples_of(results, design, domain)]
    shown = _most_topics(design, domain)
    if shown is not None:
        blocks.append(tables.forced_of(results, design, design.runs[shown][0]))
    return Section(f"texts-{domain}", f"Texts: {domain}", blocks)


def _most_topics(design: TopicDesign, domain: str) -> str | None:
    """The system with the most topics, of several the first with topic distribution modelling."""
    models = design.with_topics(domain)
    return max(models, key=lambda name: (models[name].num_topics, models[name].has_tdm), default=None)


def _lead(results: TopicResults, design: TopicDesign) -> str:
    """What came out, in some numbers a domain."""
    parts = []
    for domain in design.systems.domains:
        names = [design.systems.base, *design.systems.of_domain(domain)]
        figures = {name: results.records.figure(name, PERPLEXITY, domain) for name in names}
        found = {name: figure for name, figure in figures.items() if figure is not None}
        if len(found) > 1:
            parts.append(f"Perplexity on {domain}: {describe_range(found, min, design.systems.base)}.")
    return " ".join(parts) or "Nothing has been measured yet."


def _tiles(results: TopicResults, design: TopicDesign) -> list[tuple[str, str]]:
    record = next((results.topics[run] for run in design.runs[design.systems.base] if run in results.topics), None)
    tiles = [("Domains", f"{len(design.systems.domains)}"), ("Systems", f"{len(design.runs)}")]
    if record is None:
        return tiles
    tokens = sum(found["tokens"] for found in record["texts"].values())
    base_tokens = sum(found["tokens"] for found in record["base"].values())
    return [*tiles, ("Test tokens", f"{tokens:,}"), ("Test tokens like the base’s", f"{base_tokens:,}")]
