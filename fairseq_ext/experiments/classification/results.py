"""What an experiment with tasks has measured, read from its folder, and what its file says of its systems."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from fairseq_ext.experiments.classification.config import ClassificationExperiment
from fairseq_ext.experiments.classification.systems import RobertaSystem
from fairseq_ext.recipes.config import Run
from fairseq_ext.report.records import Record, Records, read_result, results_by_name

# Relative to the experiment's folder; the first is by run.
METRICS_FILE = "predictions/{}/metrics.json"
DIFFERENCES_FILE = "analysis/differences/differences.json"

# What records are called; metrics and parameters as in their files. The main metric of a task is there as such, too.
MAIN, MAJORITY, SHARE = "main metric", "most frequent label", "trained of base"


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
    """

    name: str
    tasks: Mapping[str, Sequence[str]]
    methods: Mapping[str, Method]

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
        """All runs."""
        return [run for method in self.methods.values() for names in method.runs.values() for run in names]


@dataclass(frozen=True)
class TaskResults:
    """What the steps of an experiment have measured; what has not been made is missing.

    Attributes:
        records: metrics in percent and parameters by task. A run has the name of its training, less the task.
        predictions: by run; see :mod:`fairseq_ext.experiments.classification.evaluate`.
        differences: from full fine-tuning.
    """

    records: Records = Records()
    predictions: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    differences: Mapping[str, Any] | None = None

    def average(self, design: TaskDesign, method: Method, split: str = "test") -> float | None:
        """The main metrics averaged over all tasks; None if one is missing."""
        return self.records.mean(method.name, on(MAIN, split), *design.tasks)

    def over_tasks(self, method: Method, metric: str) -> float | None:
        """The average over those tasks of a method that were measured; None without any."""
        return self.records.mean(method.name, metric, *self.tasks_of(method))

    def tasks_of(self, method: Method) -> list[str]:
        """The tasks of a method that were measured."""
        return [task for task in method.runs if self.records.figure(method.name, "trained", task)]

    def multiple(self, design: TaskDesign, method: Method) -> float | None:
        """All parameters that all tasks take together, of the base's: what stays as it is once, the rest by task."""
        mean, name, tasks = self.records.mean, method.name, self.tasks_of(method)
        if not tasks or len(tasks) < len(design.tasks):
            return None
        base, changed = mean(name, "base", tasks[0]) or 1, max(mean(name, "base_trained", task) or 0 for task in tasks)
        return (base - changed + sum(mean(name, "trained", task) or 0 for task in tasks)) / base


def on(metric: str, split: str) -> str:
    """What the value of a metric on a set is called."""
    return f"{metric}, {split}"


def read_results(config: ClassificationExperiment) -> TaskResults:
    """Read whatever results there are.

    Raises:
        InputError: if one of them cannot be read.
    """
    design = TaskDesign.of(config)
    predictions = results_by_name(config.work_dir, METRICS_FILE, design.runs)
    differences = read_result(config.work_dir / DIFFERENCES_FILE)
    records = [record for run, found in predictions.items() for record in _of_run(run, found, design)]
    records += _of_tasks(predictions)
    records += _of_differences(differences or {}, design)
    return TaskResults(Records(records), predictions, differences)


def _of_run(name: str, found: Mapping[str, Any], design: TaskDesign) -> Iterator[Record]:
    task, parameters = found["task"], found["parameters"]
    run = name.replace(f"@{task}", "")
    record = partial(Record, run.partition("@")[0], run, task, source=METRICS_FILE.format(name))
    for split, values in found["metrics"].items():
        for metric, value in values.items():
            for called in (metric, MAIN) if metric == design.tasks[task][0] else (metric,):
                yield record(on(called, split), 100 * value)
    for metric, value in {**parameters, SHARE: parameters["trained"] / parameters["base"]}.items():
        yield record(metric, value)


def _of_tasks(predictions: Mapping[str, Mapping[str, Any]]) -> Iterator[Record]:
    for name, found in {found["task"]: (name, found) for name, found in predictions.items()}.values():
        record = partial(Record, "", "", found["task"], source=METRICS_FILE.format(name))
        for split, count in found["counts"].items():
            yield record(on("examples", split), count)
        for split, share in found["majority"].items():
            yield record(on(MAJORITY, split), 100 * share)
        if found["labels"]:
            yield record("labels", len(found["labels"]))


def _of_differences(differences: Mapping[str, Any], design: TaskDesign) -> Iterator[Record]:
    """Main metrics against full fine-tuning, tested for accuracies only; over all tasks if all of them are."""
    tested = {task for task, metrics in design.tasks.items() if metrics[0] == "accuracy"}
    for system, found in differences.get("systems", {}).items():
        by_domain = {task: values for task, values in found["tasks"].items() if task in tested}
        if by_domain.keys() == design.tasks.keys():
            by_domain[""] = found["average"]
        for domain, values in by_domain.items():
            for metric in ("difference", "p"):
                if values[metric] is not None:
                    yield Record(system, "", domain, metric, values[metric], DIFFERENCES_FILE)


def result_files(config: ClassificationExperiment) -> list[Path]:
    """Where all records would be."""
    names = [METRICS_FILE.format(run) for run in TaskDesign.of(config).runs] + [DIFFERENCES_FILE]
    return [config.work_dir / name for name in names]


def _method(system: RobertaSystem, runs: Sequence[Run]) -> Method:
    by_task = {task: [run.name for run in runs if run.domain == task] for task in system.tasks}
    return Method(system.system.name, str(system.tuning), system.bottleneck_dim or system.top_layers, by_task)
