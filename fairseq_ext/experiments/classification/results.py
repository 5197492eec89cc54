"""What an experiment with tasks has measured, read from its folder, and what its file says of its systems."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fairseq_ext.experiments.classification.config import ClassificationExperiment
from fairseq_ext.experiments.classification.systems import RobertaSystem
from fairseq_ext.experiments.systems import Run
from fairseq_ext.report.records import read_result as read_record

# Relative to the experiment's folder; the first is by run.
METRICS_FILE = "predictions/{}/metrics.json"
FILES = {name: f"analysis/{name}/{name}.json" for name in ("layers", "sequence", "differences")}


@dataclass(frozen=True)
class Method:
    """A system that is trained on tasks.

    Attributes:
        name: its name.
        tuning: ``adapters``, ``norms``, ``top`` or ``full``.
        size: bottleneck of its adapters, or number of top layers; None for the others.
        runs: by task, one a seed.
    """

    name: str
    tuning: str
    size: int | None
    runs: Mapping[str, Sequence[str]]


@dataclass(frozen=True)
class TaskDesign:
    """What the experiment file says.

    Attributes:
        name: the experiment's, which is its folder's.
        tasks: by task its metrics, the main one first.
        methods: by name, in the order of the file.
        swept: the option that the sweep varies, and of which system; None without a sweep.
        sweep: the sweep's runs by task and value.
    """

    name: str
    tasks: Mapping[str, Sequence[str]]
    methods: Mapping[str, Method]
    swept: tuple[str, str] | None = None
    sweep: Mapping[str, Mapping[float, str]] = field(default_factory=dict)

    @classmethod
    def of(cls, config: ClassificationExperiment) -> TaskDesign:
        """Take it from an experiment."""
        return cls(
            name=config.work_dir.name,
            tasks={name: task.metrics for name, task in config.tasks.items()},
            methods={
                name: _method(system, config.runs[name])
                for name, system in config.systems.items()
                if not system.is_base
            },
            swept=(config.sweep.option, config.sweep.system) if config.sweep else None,
            sweep={
                task: {value: run.name for value, run in sorted(runs.items())}
                for task, runs in config.sweep_runs.items()
            },
        )

    def of_tuning(self, *kinds: str) -> list[Method]:
        """The methods that train this, smaller ones first."""
        return sorted((m for m in self.methods.values() if m.tuning in kinds), key=lambda method: method.size or 0)

    @property
    def full(self) -> Method | None:
        """Full fine-tuning: the first method of this kind."""
        return next(iter(self.of_tuning("full")), None)

    @property
    def runs(self) -> list[str]:
        """All runs, those of the sweep last."""
        runs = [run for method in self.methods.values() for names in method.runs.values() for run in names]
        return list(dict.fromkeys([*runs, *(run for by_value in self.sweep.values() for run in by_value.values())]))


@dataclass(frozen=True)
class TaskResults:
    """The records of an experiment; what has not been made is missing.

    Attributes:
        predictions: by run; see :mod:`fairseq_ext.experiments.classification.evaluate`.
        layers: by task, what removing adapters costs.
        sequence: by sequence, what became of earlier tasks.
        differences: from full fine-tuning.
    """

    predictions: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    layers: Mapping[str, Any] | None = None
    sequence: Mapping[str, Any] | None = None
    differences: Mapping[str, Any] | None = None

    def score(self, run: str, metric: str, split: str = "test") -> float | None:
        """A metric of a run in percent; None if it was not measured."""
        value = self.predictions.get(run, {}).get("metrics", {}).get(split, {}).get(metric)
        return None if value is None else 100 * value

    def scores(self, method: Method, task: str, metric: str, split: str = "test") -> list[float]:
        """A metric of a method in percent, one value a run that was measured."""
        values = (self.score(run, metric, split) for run in method.runs.get(task, []))
        return [value for value in values if value is not None]

    def averages(self, design: TaskDesign, method: Method, split: str = "test") -> list[float]:
        """The main metrics averaged over all tasks, one value a seed that all of them were measured with."""
        by_task = [self.scores(method, task, metrics[0], split) for task, metrics in design.tasks.items()]
        return [statistics.fmean(values) for values in zip(*by_task, strict=False)] if by_task else []

    def average(self, design: TaskDesign, method: Method, split: str = "test") -> float | None:
        """Their mean; None if a task is missing."""
        averages = self.averages(design, method, split)
        return statistics.fmean(averages) if averages else None

    def parameters(self, method: Method, task: str) -> Mapping[str, int] | None:
        """What the method trains for a task; None if it was not measured."""
        records = (self.predictions[run]["parameters"] for run in method.runs.get(task, []) if run in self.predictions)
        return next(records, None)

    def trained(self, method: Method) -> float | None:
        """Parameters trained for a task, its head among them, averaged over tasks; None if nothing was measured."""
        counts = [counted["trained"] for task in method.runs if (counted := self.parameters(method, task))]
        return statistics.fmean(counts) if counts else None

    def share(self, method: Method) -> float | None:
        """The same, of the base's parameters."""
        counts = [c["trained"] / c["base"] for task in method.runs if (c := self.parameters(method, task))]
        return statistics.fmean(counts) if counts else None

    def multiple(self, design: TaskDesign, method: Method) -> float | None:
        """All parameters that all tasks take together, of the base's: what stays as it is once, the rest by task."""
        counted = [c for task in design.tasks if (c := self.parameters(method, task))]
        if not counted or len(counted) < len(design.tasks):
            return None
        base = counted[0]["base"]
        return (base - max(c["base_trained"] for c in counted) + sum(c["trained"] for c in counted)) / base

    def difference(self, design: TaskDesign, method: str, task: str) -> Mapping[str, float] | None:
        """A task's main metric against full fine-tuning; None if it was not tested, which only accuracies are."""
        found = (self.differences or {"systems": {}})["systems"].get(method)
        if found is None or design.tasks[task][0] != "accuracy":
            return None
        result: Mapping[str, float] | None = found["tasks"].get(task)
        return result

    def average_difference(self, design: TaskDesign, method: str) -> Mapping[str, float] | None:
        """The same averaged over all tasks; None if one of them was not tested."""
        if not design.tasks or None in [self.difference(design, method, task) for task in design.tasks]:
            return None
        result: Mapping[str, float] = (self.differences or {})["systems"][method]["average"]
        return result

    def majority(self, task: str, split: str) -> float | None:
        """The accuracy in percent of always giving the most frequent label; None for a regression."""
        records = (record["majority"] for record in self.predictions.values() if record["task"] == task)
        return next((100 * found[split] for found in records if split in found), None)


def read_results(config: ClassificationExperiment) -> TaskResults:
    """Read whatever records there are.

    Raises:
        InputError: if one of them cannot be read.
    """
    found = {run: read_record(config.work_dir / METRICS_FILE.format(run)) for run in TaskDesign.of(config).runs}
    predictions = {run: record for run, record in found.items() if record is not None}
    return TaskResults(predictions, **{name: read_record(config.work_dir / path) for name, path in FILES.items()})


def result_files(config: ClassificationExperiment) -> list[Path]:
    """Where all records would be."""
    names = [METRICS_FILE.format(run) for run in TaskDesign.of(config).runs] + list(FILES.values())
    return [config.work_dir / name for name in names]


def _method(system: RobertaSystem, runs: Sequence[Run]) -> Method:
    by_task = {task: [run.name for run in runs if run.domain == task] for task in system.tasks}
    return Method(system.system.name, str(system.tuning), system.bottleneck_dim or system.top_layers, by_task)
