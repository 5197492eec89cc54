"""What an experiment has measured, read from its folder, and what its file says of the outputs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fairseq_ext.experiments.translation.experiment import TranslationExperiment
from fairseq_ext.metrics.corpus_metrics import METRICS
from fairseq_ext.report.records import read_record

# Where each part comes from, relative to the experiment's folder.
FILES = {
    "scores": "scores/scores.json",
    "teacher": "teacher/teacher.json",
    "distances": "analysis/distances/distances.json",
    "parameters": "analysis/parameters/parameters.json",
    "gates": "analysis/gates/gates.json",
    "speed": "analysis/speed/speed.json",
}
DISAGREEMENTS = "analysis/gates/disagreements.jsonl"

Scores = Mapping[str, Mapping[str, Mapping[str, Any]]]


@dataclass(frozen=True)
class Design:
    """What the experiment file says of outputs and systems.

    Attributes:
        name: the experiment's, which is its folder's.
        langs: source and target.
        main: outputs of the main tables, in order.
        ablation: those of Table 9.
        baseline: the output that the others are compared with.
        told: outputs that are told the true domain of every sentence.
        systems: the system of each output.
        starts: the system that each system starts from, if any, in the order of the file.
        per_domain: systems with a model a domain.
        resamples: of the bootstrap.
    """

    name: str
    langs: tuple[str, str]
    main: Sequence[str]
    ablation: Sequence[str]
    baseline: str
    told: frozenset[str]
    systems: Mapping[str, str]
    starts: Mapping[str, str | None]
    per_domain: frozenset[str]
    resamples: int

    @classmethod
    def of(cls, config: TranslationExperiment) -> Design:
        """What of an experiment the report needs."""
        systems, outputs, evaluate = config.systems, config.outputs, config.evaluate
        return cls(
            name=config.work_dir.name,
            langs=(config.source_lang, config.target_lang),
            main=evaluate.report.main,
            ablation=evaluate.report.ablation,
            baseline=evaluate.baseline or "",
            told=frozenset(name for name, output in outputs.items() if output.is_told),
            systems={name: output.system.name for name, output in outputs.items()},
            starts={name: system.start for name, system in systems.items()},
            per_domain=frozenset(name for name, system in systems.items() if system.per_domain),
            resamples=evaluate.resamples,
        )


@dataclass(frozen=True)
class Results:
    """The records of an experiment; None for what has not been made."""

    scores: Mapping[str, Any] | None = None
    teacher: Mapping[str, Any] | None = None
    distances: Mapping[str, Any] | None = None
    parameters: Mapping[str, Any] | None = None
    gates: Mapping[str, Any] | None = None
    speed: Mapping[str, Any] | None = None

    @property
    def domains(self) -> list[str]:
        record = self.scores or self.teacher or self.distances or {"domains": []}
        return list(record["domains"])

    @property
    def outputs(self) -> Mapping[str, Scores]:
        return self.scores["outputs"] if self.scores else {}

    @property
    def metrics(self) -> list[str]:
        """The metrics that were computed, the most trusted first."""
        return [metric for metric in METRICS if any(metric in scores for scores in self.outputs.values())]

    def score(self, output: str, metric: str, column: str) -> Mapping[str, Any] | None:
        """Mean, standard deviation, values and p-value of one figure; None if it was not computed."""
        return self.outputs.get(output, {}).get(metric, {}).get(column)

    def gain(self, output: str, over: str, metric: str, column: str) -> float | None:
        """By how much one output's mean is better than another's."""
        pair = [self.score(name, metric, column) for name in (output, over)]
        return METRICS[metric].gain(pair[0]["mean"], pair[1]["mean"]) if pair[0] and pair[1] else None

    def best(self, outputs: Iterable[str], metric: str) -> str | None:
        """Of some outputs, that of the best mean over the domains, the first of equals; None if none has one."""
        means = {name: score["mean"] for name in outputs if (score := self.score(name, metric, "AVG"))}
        return METRICS[metric].best(means, key=means.__getitem__) if means else None


def read_results(work_dir: Path) -> Results:
    """Read whatever records there are.

    Raises:
        InputError: if one of them is no JSON.
    """
    return Results(**{name: read_record(work_dir / path) for name, path in FILES.items()})
