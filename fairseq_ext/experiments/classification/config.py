"""The experiment file of classifiers: one YAML from text and labelled tasks to measured adapters.

All of it is read and checked here, once, before anything runs.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain, pairwise
from pathlib import Path
from typing import Any

from fairseq_ext.classifiers.task_split import METRICS, ClassificationSplit, ClassificationTask
from fairseq_ext.corpora.labelled_text import TABLES, is_table
from fairseq_ext.corpora.raw_text import ON_BAD_UTF8
from fairseq_ext.domains.names import is_domain_name
from fairseq_ext.engine.fairseq_cli import check_option
from fairseq_ext.experiments.classification.systems import RobertaSystem, check_tasks, read_systems
from fairseq_ext.experiments.kinds import load_as
from fairseq_ext.inputs.errors import InputError
from fairseq_ext.inputs.sections import (
    as_mapping,
    check_choice,
    check_keys,
    check_numbers,
    check_seed,
    read_section,
)
from fairseq_ext.recipes.config import Run, System, expand, fitting_run
from fairseq_ext.recipes.grids import without
from fairseq_ext.text.subwords import SentencePiece, check_sentencepiece


@dataclass(frozen=True)
class BaseText:
    """The text that the base model is trained on.

    Attributes:
        folder: one file ``DOMAIN.txt`` for each domain.
        on_bad_utf8: what becomes of a line with bytes that are no UTF-8: ``fail``, ``drop`` (the line) or ``replace``
            (by U+FFFD).
    """

    folder: str
    on_bad_utf8: str = "fail"


@dataclass(frozen=True)
class Subwords(SentencePiece):
    """A SentencePiece model of the base model's text or, where ``imported`` is given, those of an imported model.

    ``imported`` names a folder made by ``scripts/import_roberta.py``; the other options are then not used.
    """

    imported: str | None = None


@dataclass(frozen=True)
class Sweep:
    """Trainings of one system that differ in one option, all from the base.

    Attributes:
        system: the system.
        option: of fairseq-train.
        values: of the option.
        tasks: that it is trained for.
    """

    system: str
    option: str
    values: list[float]
    tasks: list[str]


@dataclass(frozen=True)
class Ablation:
    """Trained adapters left out of spans of layers: of which system, and of which of its tasks (by default all)."""

    system: str
    tasks: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Evaluation:
    """What is measured beyond the metrics of the tasks, and how.

    Attributes:
        ablation: see :class:`Ablation`; None for none.
        batch_size: sentences in a batch.
        cpu: whether to leave a GPU alone.
        reading: Markdown file beside the experiment file, with words on the results.
    """

    ablation: Ablation | None = None
    batch_size: int = 64
    cpu: bool = False
    reading: str | None = None


@dataclass(frozen=True)
class ClassificationExperiment:
    """A whole experiment file.

    Attributes:
        path: where it was read from.
        corpora: None if the base is imported.
        systems: by name (``train`` in the file), none before the one that it starts from.
        sweep: None if there is none.
    """

    path: Path = field(metadata={"in_file": False})
    work_dir: Path
    tasks: dict[str, ClassificationTask]
    corpora: BaseText | None = None
    seed: int = 1
    split: ClassificationSplit = ClassificationSplit()
    subwords: Subwords = Subwords()
    systems: Mapping[str, RobertaSystem] = field(default_factory=dict, metadata={"in_file": False})
    sweep: Sweep | None = None
    evaluate: Evaluation = Evaluation()

    @cached_property
    def runs(self) -> Mapping[str, Sequence[Run]]:
        """The runs of every system, by its name; not those of the sweep."""
        return {name: system.runs(self.seed) for name, system in self.systems.items()}

    @cached_property
    def task_runs(self) -> Sequence[Run]:
        """The runs of all systems that are trained for tasks, in order; not those of the sweep."""
        return [run for name, runs in self.runs.items() for run in runs if not self.systems[name].is_base]

    @cached_property
    def sweep_runs(self) -> Mapping[str, Mapping[float, Run]]:
        """The runs of the sweep by task and value, with the first seed of the system.

        Their systems have names of their own, such as ``adapters-64.adapter-init-scale.1e-07``.
        """
        if self.sweep is None:
            return {}
        system = self.systems[self.sweep.system].system
        seed = expand(system, self.seed, ())[0].seed
        varied = {value: _vary(system, self.sweep.option, _spelled(value)) for value in self.sweep.values}
        return {
            task: {value: Run(f"{other.name}@{task}", other, seed, task) for value, other in varied.items()}
            for task in self.sweep.tasks
        }

    @cached_property
    def measured_runs(self) -> Sequence[Run]:
        """All runs that have a task, those of the sweep last."""
        swept = [run for by_value in self.sweep_runs.values() for run in by_value.values()]
        # A sweep may have the run of a system among its own.
        return list({run.name: run for run in [*self.task_runs, *swept]}.values())

    @cached_property
    def sequences(self) -> Mapping[str, Sequence[Run]]:
        """The runs of each sequence of several tasks, in the order of training; a sequence a system and seed."""
        found = {}
        for name, system in self.systems.items():
            runs = self.runs[name] if system.in_sequence and len(system.tasks) > 1 else []
            seeds = dict.fromkeys(run.seed for run in runs)
            for seed in seeds:
                found[f"{name}@{seed}" if len(seeds) > 1 else name] = [run for run in runs if run.seed == seed]
        return found

    def siblings(self, run: Run) -> Sequence[Run]:
        """All runs of a run's system; of a run of the sweep, those of the system that the sweep varies."""
        name = run.system.name
        return self.runs[self.sweep.system if self.sweep and name not in self.systems else name]

    def start_of(self, run: Run) -> Run | None:
        """The run that a run starts from: the base's or, in a sequence, that of the task before.

        Raises:
            InputError: if the base has several runs, and none of the seed.
        """
        if run.system.start is None:
            return None
        for runs in self.sequences.values():
            for before, after in pairwise(runs):
                # A trial has another name than the run that its like becomes.
                if (run.system.name, run.domain, run.seed) == (after.system.name, after.domain, after.seed):
                    return before
        return fitting_run(run, self.runs[run.system.start], f"{self.path}: train: systems")


def read(content: Mapping[str, Any], path: Path) -> ClassificationExperiment:
    """Read and check an experiment file of classifiers.

    Raises:
        InputError: naming the file and key, and what is allowed there.
    """
    raw = dict(content)
    check_keys(ClassificationExperiment, raw, str(path), ("train",))
    readers: dict[str, Callable[[Any, str], Any]] = {
        "tasks": _tasks,
        "corpora": lambda value, where: read_section(BaseText, value, where),
        "split": lambda value, where: read_section(ClassificationSplit, value, where),
        "subwords": lambda value, where: read_section(Subwords, value, where),
    }
    late = {key: as_mapping(raw.pop(key, {}), f"{path}: {key}") for key in ("train", "sweep", "evaluate")}
    sections = {key: reader(raw.pop(key), f"{path}: {key}") for key, reader in readers.items() if key in raw}
    config: ClassificationExperiment = read_section(
        ClassificationExperiment, raw, str(path), given={**sections, "path": path}, others=("train",)
    )
    _check(config)
    systems = read_systems(late["train"], list(config.tasks), f"{path}: train")
    config = dataclasses.replace(
        config,
        systems=systems,
        sweep=_sweep(late["sweep"], systems, f"{path}: sweep") if late["sweep"] else None,
        evaluate=_evaluation(late["evaluate"], systems, f"{path}: evaluate"),
    )
    # Whatever run a system starts from is there.
    for run in [*chain.from_iterable(config.runs.values()), *config.measured_runs]:
        config.start_of(run)
    return config


def load_config(path: Path) -> ClassificationExperiment:
    """Read and check the file of such an experiment; see :func:`read`."""
    return load_as(["classification"], read, path)


def _tasks(value: Any, where: str) -> dict[str, ClassificationTask]:
    entries = as_mapping(value, where)
    if not entries:
        raise InputError(f"{where}: is empty; give at least one task")
    for name in entries:
        if not isinstance(name, str) or not is_domain_name(name):
            raise InputError(f"{where}: {name!r} is no name of a task; use letters, digits, '-' and '_' only")
    return {name: _task(name, entry, f"{where}: {name}") for name, entry in entries.items()}


def _task(name: str, value: Any, where: str) -> ClassificationTask:
    task: ClassificationTask = read_section(ClassificationTask, value, where, given={"name": name})
    check_choice(task.kind, tuple(METRICS), f"{where}: kind")
    for metric in task.metrics:
        check_choice(metric, METRICS[task.kind], f"{where}: metrics")
    for role, path in task.tables.items():
        if not is_table(path):
            raise InputError(f"{where}: {role}: {path} is no table; give {', '.join(TABLES)}")
    return dataclasses.replace(task, metrics=task.metrics or [METRICS[task.kind][0]])


def _check(config: ClassificationExperiment) -> None:
    """Check what types alone cannot say."""
    where = str(config.path)
    check_seed(config.seed, where)
    if config.corpora is not None:
        check_choice(config.corpora.on_bad_utf8, ON_BAD_UTF8, f"{where}: corpora: on_bad_utf8")
    elif config.subwords.imported is None:
        raise InputError(f"{where}: corpora: is missing; give text for the base model, or subwords: imported")
    for name in ("split", "subwords"):
        check_numbers(dataclasses.asdict(getattr(config, name)), f"{where}: {name}")
    if config.split.task_valid + config.split.task_test >= 1:
        raise InputError(f"{where}: split: task_valid and task_test leave nothing to train on; lower them")
    check_sentencepiece(config.subwords, f"{where}: subwords")


def _sweep(value: Any, systems: Mapping[str, RobertaSystem], where: str) -> Sweep:
    sweep: Sweep = read_section(Sweep, value, where)
    system = _task_system(systems, sweep.system, f"{where}: system")
    check_tasks(sweep.tasks, system.tasks, f"{where}: tasks")
    check_option(sweep.option, f"{where}: option")
    if sweep.option.replace("_", "-") in system.system.tune:
        raise InputError(f"{where}: option: {sweep.option} is tuned for {sweep.system}; sweep another one")
    if len({_spelled(value) for value in sweep.values}) < len(sweep.values):
        raise InputError(f"{where}: values: a value is given twice")
    return sweep


def _spelled(value: float) -> str:
    """A value of the sweep in the name of its system."""
    return f"{value:g}"


def _vary(system: System, option: str, value: str) -> System:
    """The system with another value of an option, which may be written with hyphens or underscores."""
    options = {**without(system.options, [option.replace("_", "-")]), option: value}
    return system.model_copy(update={"name": f"{system.name}.{option}.{value}", "options": options})


def _evaluation(value: Mapping[str, Any], systems: Mapping[str, RobertaSystem], where: str) -> Evaluation:
    entries = {key: entry for key, entry in value.items() if entry is not None}
    given = {}
    if "ablation" in entries:
        given["ablation"] = _ablation(entries.pop("ablation"), systems, f"{where}: ablation")
    evaluation: Evaluation = read_section(Evaluation, entries, where, given=given)
    check_numbers({"batch_size": evaluation.batch_size}, where)
    return evaluation


def _ablation(value: Any, systems: Mapping[str, RobertaSystem], where: str) -> Ablation:
    ablation: Ablation = read_section(Ablation, value, where)
    system = _task_system(systems, ablation.system, f"{where}: system")
    if system.tuning != "adapters":
        raise InputError(f"{where}: system: {ablation.system!r} has no adapters to leave out; choose one with adapters")
    check_tasks(ablation.tasks, system.tasks, f"{where}: tasks")
    return dataclasses.replace(ablation, tasks=ablation.tasks or list(system.tasks))


def _task_system(systems: Mapping[str, RobertaSystem], name: str, where: str) -> RobertaSystem:
    check_choice(name, [key for key, system in systems.items() if not system.is_base], where)
    return systems[name]
