"""What an experiment has measured, read from its folder, and what its file says of the outputs."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from fairseq_ext.experiments.translation.comparisons import Comparison
from fairseq_ext.experiments.translation.control import base_systems, continued_systems
from fairseq_ext.experiments.translation.experiment import TranslationExperiment
from fairseq_ext.metrics.corpus_metrics import METRICS
from fairseq_ext.report.records import Record, Records, read_result

# Where each part comes from, relative to the experiment's folder.
FILES = {
    "scores": "scores/scores.json",
    "teacher": "teacher/teacher.json",
    "distances": "analysis/distances/distances.json",
    "parameters": "analysis/parameters/parameters.json",
    "gates": "analysis/gates/gates.json",
    "joined": "analysis/joined/joined.json",
    "speed": "analysis/speed/speed.json",
}
DISAGREEMENTS = "analysis/gates/disagreements.jsonl"

# What records of these are called, beside the metrics of translations.
TRAINING_PAIRS, TEST_SENTENCES = "training pairs", "test sentences"
PARAMETERS, TRAINED = "total", "trained"
ALONE = ("states", "source")  # inputs of gates that see several
PARTS = ("difference", "low", "high", "p")  # of a comparison
CHOICES = {"the classifier’s choice": "agreement", "the true domain": "correct"}  # whether a gate's is that


@dataclass(frozen=True)
class Design:
    """What the experiment file says of outputs and systems.

    Attributes:
        name: the experiment's, which is its folder's.
        langs: source and target.
        main: outputs of the main tables, in order.
        ablation: those of Table 9.
        baseline: the output that marks in tables compare with.
        compare: outputs that all others are compared with in a table of their own.
        plain: outputs of base models, continued ones among them.
        told: outputs that are told the true domain of every sentence.
        sources: where each output has the domain from, see
            :attr:`~fairseq_ext.experiments.translation.outputs.Output.domain_source`.
        gated: outputs whose gates are reported.
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
    compare: Sequence[str]
    plain: frozenset[str]
    told: frozenset[str]
    sources: Mapping[str, str]
    gated: frozenset[str]
    systems: Mapping[str, str]
    starts: Mapping[str, str | None]
    per_domain: frozenset[str]
    resamples: int

    @classmethod
    def of(cls, config: TranslationExperiment) -> Design:
        """What of an experiment the report needs."""
        systems, outputs, evaluate = config.systems, config.outputs, config.evaluate
        bases = {*base_systems(systems), *continued_systems(systems)}
        return cls(
            name=config.work_dir.name,
            langs=(config.source_lang, config.target_lang),
            main=evaluate.report.main,
            ablation=evaluate.report.ablation,
            baseline=evaluate.baseline or "",
            compare=evaluate.compare,
            plain=frozenset(name for name, output in outputs.items() if output.system.name in bases),
            told=frozenset(name for name, output in outputs.items() if output.is_told),
            sources={name: output.domain_source for name, output in outputs.items()},
            gated=frozenset(name for name, output in outputs.items() if output.gates),
            systems={name: output.system.name for name, output in outputs.items()},
            starts={name: system.start for name, system in systems.items()},
            per_domain=frozenset(name for name, system in systems.items() if system.per_domain),
            resamples=evaluate.resamples,
        )


@dataclass(frozen=True)
class Results:
    """What the steps of an experiment have measured; None for what has not been made."""

    scores: Mapping[str, Any] | None = None
    teacher: Mapping[str, Any] | None = None
    distances: Mapping[str, Any] | None = None
    parameters: Mapping[str, Any] | None = None
    gates: Mapping[str, Any] | None = None
    joined: Mapping[str, Any] | None = None
    speed: Mapping[str, Any] | None = None

    @cached_property
    def records(self) -> Records:
        """All values: of outputs or systems, by test set or average."""
        found = {name: getattr(self, name) or {} for name in _MAKERS}
        return Records([record for name, make in _MAKERS.items() for record in make(found[name], FILES[name])])

    @property
    def domains(self) -> list[str]:
        result = self.scores or self.teacher or self.distances or {"domains": []}
        return list(result["domains"])

    @property
    def outputs(self) -> list[str]:
        """The outputs that were scored."""
        return list(self.scores["outputs"]) if self.scores else []

    @property
    def metrics(self) -> list[str]:
        """The metrics that were computed, the most trusted first."""
        found = {record.metric for record in self.records}
        return [metric for metric in METRICS if metric in found]

    def p(self, output: str, metric: str, column: str) -> float | None:
        """Of the output against the baseline; None if it was not tested."""
        return self.records.mean(output, p_of(metric), column)

    def gain(self, output: str, over: str, metric: str, column: str) -> float | None:
        """By how much one output's mean is better than another's, as they are shown."""
        pair = [self.records.mean(name, metric, column) for name in (output, over)]
        if pair[0] is None or pair[1] is None:
            return None
        return METRICS[metric].gain(round(pair[0], 2), round(pair[1], 2))

    def comparison(self, output: str, over: str, metric: str, column: str) -> Comparison | None:
        """An output compared with a baseline in one column; None if it was not."""
        found = {part: self.records.mean(output, over_of(metric, over, part), column) for part in PARTS}
        return None if found[PARTS[0]] is None else found


def p_of(metric: str) -> str:
    """Under which name records have the p-values of a metric's differences to the baseline."""
    return f"{metric}: p"


def over_of(metric: str, other: str, part: str) -> str:
    """Under which name records have a part of an output's comparison with another."""
    return f"{metric}: over {other}, {part}"


def agreement_with(choice: str, layer: str, inputs: str = "") -> str:
    """Under which name records have how often a layer's largest gate is that of a choice, if some inputs decided."""
    return ", ".join(filter(None, [f"largest gate is {choice}", layer, inputs]))


def read_results(work_dir: Path) -> Results:
    """Read whatever results there are.

    Raises:
        InputError: if one of them is no JSON.
    """
    return Results(**{name: read_result(work_dir / path) for name, path in FILES.items()})


def _of_scores(scores: Mapping[str, Any], source: str) -> Iterator[Record]:
    for name, metric in {"train_sizes": TRAINING_PAIRS, "test_sizes": TEST_SENTENCES}.items():
        for domain, size in scores.get(name, {}).items():
            yield Record("", "", domain, metric, size, source)
    for output, found in scores.get("outputs", {}).items():
        for metric, column, figure in ((m, c, f) for m in METRICS for c, f in found.get(m, {}).items()):
            for run, value in zip(found["runs"], figure["values"], strict=True):
                yield Record(output, run, column, metric, value, source)
            if figure["p"] is not None:
                yield Record(output, "", column, p_of(metric), figure["p"], source)
    for metric, others in scores.get("comparisons", {}).items():
        for other, outputs in others.items():
            for output, columns in outputs.items():
                names = {part: over_of(metric, other, part) for part in PARTS}
                yield from _of_comparison(output, columns, names, source)


def _of_comparison(output: str, columns: Mapping[str, Any], names: Mapping[str, str], source: str) -> Iterator[Record]:
    for column, found in columns.items():
        for part, name in names.items():
            if found[part] is not None:
                yield Record(output, "", column, name, found[part], source)


def _of_teacher(teacher: Mapping[str, Any], source: str) -> Iterator[Record]:
    for split, found in teacher.get("metrics", {}).items():
        yield Record("", "", "", f"micro-averaged F1, {split}", 100 * found["micro_f1"], source)
        for domain, values in found["per_domain"].items():
            for metric in ("f1", "precision", "recall"):
                yield Record("", "", domain, f"{metric}, {split}", 100 * values[metric], source)


def _of_distances(distances: Mapping[str, Any], source: str) -> Iterator[Record]:
    domains = distances.get("domains", [])
    for domain, row in zip(domains, distances.get("matrix", []), strict=True):
        for other, value in zip(domains, row, strict=True):
            yield Record("", "", domain, f"distance to {other}", value, source)


def _of_parameters(parameters: Mapping[str, Any], source: str) -> Iterator[Record]:
    for run, counts in parameters.items():
        for metric in (PARAMETERS, TRAINED):
            yield Record(run.split("@")[0], run, "", metric, counts[metric], source)


def _of_gates(gates: Mapping[str, Any], source: str) -> Iterator[Record]:
    for run, found in gates.items():
        layers = found["layers"]
        for inputs, shares in (("", found), *((f"{name} alone", found[name]) for name in ALONE if name in found)):
            for choice, key in CHOICES.items():
                by_layer = dict(zip(layers, shares[key], strict=True)) if len(shares[key]) == len(layers) else {}
                for layer, share in {**by_layer, "mean": statistics.fmean(shares[key])}.items():
                    metric = agreement_with(choice, layer, inputs)
                    yield Record(run.split("@")[0], run, "", metric, 100 * share, source)


def _of_joined(joined: Mapping[str, Any], source: str) -> Iterator[Record]:
    for run, found in joined.items():
        rows = {f"part {part + 1}": row for part, row in enumerate(found["by_part"])}
        for place, weights in {**rows, "encoder": found["encoder"]}.items():
            for domain, weight in zip(("first", "second", "other"), weights, strict=True):
                yield Record(run.split("@")[0], run, "JOINED", f"gates of the {domain} domain, {place}", weight, source)


def _of_speed(speed: Mapping[str, Any], source: str) -> Iterator[Record]:
    for output, found in speed.items():
        if isinstance(found, Mapping):
            for metric in ("sentences_per_second", "tokens_per_second"):
                yield Record(output, "", "", metric, found[metric], source)
            for metric in ("seconds", "classifier_seconds"):
                parts = {domain: part.get(metric) or 0 for domain, part in found["domains"].items()}
                for domain, seconds in {**parts, "": sum(parts.values())}.items():
                    yield Record(output, "", domain, metric, seconds, source)


_MAKERS = {
    "scores": _of_scores,
    "teacher": _of_teacher,
    "distances": _of_distances,
    "parameters": _of_parameters,
    "gates": _of_gates,
    "joined": _of_joined,
    "speed": _of_speed,
}
