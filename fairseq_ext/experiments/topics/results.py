"""What an experiment with topic models has measured, read from its folder, and what its file says of its systems."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from fairseq_ext.experiments.topics.config import TopicEvaluation, TopicExperiment
from fairseq_ext.experiments.topics.measure import (
    ALL,
    BASELINES_FILE,
    FORCED_FILE,
    RESIDUAL,
    SAMPLES_FILE,
    TOPICS_FILE,
    USED,
)
from fairseq_ext.experiments.topics.systems import AdaptedModel, TopicSystems
from fairseq_ext.report.records import Record, Records, results_by_name

Found = Mapping[str, Mapping[str, Any]]

# What records are called; the metrics of texts have their own names.
PERPLEXITY, RESIDUAL_PERPLEXITY = "perplexity", "perplexity, topic 0 alone"
ENTROPY, DEAD, LARGEST, RESIDUAL_SHARE = "entropy", "dead topics", "largest share", "share of topic 0"
BASE_TEXT = "the base’s text"  # all its domains as one: perplexity of the mean loss


@dataclass(frozen=True)
class TopicDesign:
    """What the experiment file says.

    Attributes:
        name: the experiment's, which is its folder's.
        systems: by what they are.
        runs: of each system.
        evaluation: what is measured.
    """

    name: str
    systems: TopicSystems
    runs: Mapping[str, Sequence[str]]
    evaluation: TopicEvaluation

    @classmethod
    def of(cls, experiment: TopicExperiment) -> TopicDesign:
        """What of an experiment the report shows."""
        systems = experiment.comparison
        runs = {name: [run.name for run in experiment.runs[name]] for name in (systems.base, *systems.adapted)}
        return cls(experiment.work_dir.name, systems, runs, experiment.topics)

    def with_topics(self, domain: str) -> dict[str, AdaptedModel]:
        """The systems with topics of a domain."""
        return {name: model for name, model in self.systems.of_domain(domain).items() if model.has_topics}


@dataclass(frozen=True)
class TopicResults:
    """What the steps of an experiment have measured; what has not been made is missing.

    Attributes:
        records: perplexities and the metrics of texts by domain, and of systems what their topics are like.
        topics: by run; see :mod:`fairseq_ext.experiments.topics.measure` for all of them.
        samples: by run, texts by domain.
        forced: by run, a text by each topic alone.
        baselines: by domain.
    """

    records: Records = Records()
    topics: Found = field(default_factory=dict)
    samples: Found = field(default_factory=dict)
    forced: Found = field(default_factory=dict)
    baselines: Found = field(default_factory=dict)

    def of_topics(self, run: str) -> Mapping[str, Any]:
        """What is known of a run's topics; nothing for a model without."""
        found: Mapping[str, Any] = self.topics.get(run, {}).get("topics") or {}
        return found


def coherence(way: str, top: int | str) -> str:
    """What the coherence of topics by so many words is called, which were found in one way."""
    return f"coherence, {way}, N = {top}"


def baseline_name(model: Mapping[str, Any]) -> str:
    """What a topic model without a language model is called."""
    return f"{model['kind'].upper()}, {model['num_topics']} topics"


def read_results(experiment: TopicExperiment) -> TopicResults:
    """Read whatever results there are.

    Raises:
        InputError: if one of them cannot be read.
    """
    systems = {run.name: run.system.name for run in experiment.all_runs}
    read = partial(results_by_name, experiment.work_dir)
    topics, baselines = read(TOPICS_FILE, systems), read(BASELINES_FILE, experiment.comparison.domains)
    records = [record for run, found in topics.items() for record in _of_run(systems[run], run, found)]
    records += _of_baselines(baselines)
    return TopicResults(Records(records), topics, read(SAMPLES_FILE, systems), read(FORCED_FILE, systems), baselines)


def result_files(experiment: TopicExperiment) -> list[Path]:
    """Where all records would be."""
    runs, domains = [run.name for run in experiment.all_runs], experiment.comparison.domains
    names = [pattern.format(run) for pattern in (TOPICS_FILE, SAMPLES_FILE, FORCED_FILE) for run in runs]
    return [experiment.work_dir / name for name in (*names, *(BASELINES_FILE.format(name) for name in domains))]


def _of_run(system: str, run: str, found: Mapping[str, Any]) -> Iterator[Record]:
    record = partial(Record, system, run, source=TOPICS_FILE.format(run))
    for over, metric in {ALL: PERPLEXITY, RESIDUAL: RESIDUAL_PERPLEXITY}.items():
        base = {domain: _perplexity(text, over) for domain, text in found["base"].items() if over in text["nats"]}
        own = {domain: _perplexity(text, over) for domain, text in found["texts"].items() if over in text["nats"]}
        whole = {BASE_TEXT: statistics.geometric_mean(base.values())} if base else {}
        for domain, perplexity in {**base, **whole, **own}.items():
            yield record(domain, metric, value=perplexity)
    for domain, text in found["texts"].items():
        for metric, value in text["metrics"].items():
            yield record(domain, metric, value=value)
    if topics := found["topics"]:
        usage = topics["usage"]
        shares = {LARGEST: 100 * max(usage), RESIDUAL_SHARE: 100 * usage[0]}
        for metric, value in {ENTROPY: topics["entropy"], DEAD: topics["dead"], **shares}.items():
            yield record("", metric, value=value)
        for way, by_top in topics["coherence"].items():
            for top, value in by_top.items():
                yield record("", coherence(way, top), value=value)


def _of_baselines(found: Found) -> Iterator[Record]:
    for domain, baselines in found.items():
        for model in baselines["topics"]:
            for top, value in model["coherence"].items():
                yield Record(
                    baseline_name(model), "", domain, coherence(USED, top), value, BASELINES_FILE.format(domain)
                )


def _perplexity(text: Mapping[str, Any], over: str) -> float:
    return math.exp(text["nats"][over] / text["tokens"])
