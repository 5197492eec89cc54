"""What an experiment with topic models has measured, read from its folder, and what its file says of its systems."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fairseq_ext.experiments.topics.config import TopicEvaluation, TopicExperiment
from fairseq_ext.experiments.topics.measure import ALL, BASELINES_FILE, FORCED_FILE, SAMPLES_FILE, TOPICS_FILE
from fairseq_ext.experiments.topics.systems import AdaptedModel, TopicSystems
from fairseq_ext.report.records import read_result as read_record

Records = Mapping[str, Mapping[str, Any]]
# The figure of a run; None if it was not measured.
Measure = Callable[[str], float | None]


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
    """The records of an experiment; what has not been made is missing.

    Attributes:
        topics: by run; see :mod:`fairseq_ext.experiments.topics.measure` for all of them.
        samples: by run, texts by domain.
        forced: by run, a text by each topic alone.
        baselines: by domain.
    """

    topics: Records = field(default_factory=dict)
    samples: Records = field(default_factory=dict)
    forced: Records = field(default_factory=dict)
    baselines: Records = field(default_factory=dict)

    def perplexity(self, run: str, domain: str, over: str = ALL) -> float | None:
        """On a domain's test lines; None if it was not measured."""
        return _perplexity([self.topics.get(run, {}).get("texts", {}).get(domain)], over)

    def base_perplexity(self, run: str, over: str = ALL) -> float | None:
        """On the base's own text: of the mean loss over its domains."""
        return _perplexity(self.topics.get(run, {}).get("base", {}).values(), over)

    def metric(self, run: str, domain: str, name: str) -> float | None:
        """Of the texts that a run wrote."""
        found: float | None = self.topics.get(run, {}).get("texts", {}).get(domain, {}).get("metrics", {}).get(name)
        return found

    def of_topics(self, run: str) -> Mapping[str, Any]:
        """What is known of a run's topics; nothing for a model without."""
        found: Mapping[str, Any] = self.topics.get(run, {}).get("topics") or {}
        return found

    def coherence(self, run: str, way: str, top: int) -> float | None:
        """Of a run's topics by so many words, which were found in one way."""
        found: float | None = self.of_topics(run).get("coherence", {}).get(way, {}).get(str(top))
        return found


def figures(design: TopicDesign, system: str, measure: Measure) -> list[float]:
    """A system's figure, one a run that was measured."""
    return [value for run in design.runs[system] if (value := measure(run)) is not None]


def mean_figure(design: TopicDesign, system: str, measure: Measure) -> float | None:
    """The mean over a system's runs; None if none was measured."""
    found = figures(design, system, measure)
    return statistics.fmean(found) if found else None


def read_results(experiment: TopicExperiment) -> TopicResults:
    """Read whatever records there are.

    Raises:
        InputError: if one of them cannot be read.
    """
    runs, domains = [run.name for run in experiment.all_runs], experiment.comparison.domains

    def read(pattern: str, names: Iterable[str]) -> dict[str, Any]:
        found = {name: read_record(experiment.work_dir / pattern.format(name)) for name in names}
        return {name: record for name, record in found.items() if record is not None}

    return TopicResults(
        read(TOPICS_FILE, runs), read(SAMPLES_FILE, runs), read(FORCED_FILE, runs), read(BASELINES_FILE, domains)
    )


def result_files(experiment: TopicExperiment) -> list[Path]:
    """Where all records would be."""
    runs, domains = [run.name for run in experiment.all_runs], experiment.comparison.domains
    names = [pattern.format(run) for pattern in (TOPICS_FILE, SAMPLES_FILE, FORCED_FILE) for run in runs]
    return [experiment.work_dir / name for name in (*names, *(BASELINES_FILE.format(name) for name in domains))]


def _perplexity(sets: Iterable[Mapping[str, Any] | None], over: str) -> float | None:
    """Of the mean loss over sets; None if one lacks a figure, or there are none."""
    losses = [
        None if found is None or over not in found["nats"] else found["nats"][over] / found["tokens"] for found in sets
    ]
    known = [loss for loss in losses if loss is not None]
    return math.exp(statistics.fmean(known)) if known and len(known) == len(losses) else None
