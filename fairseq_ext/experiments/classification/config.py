"""The experiment file of classifiers: one YAML from text and labelled tasks to measured adapters.

All of it is read and checked here, once, before anything runs.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Any

from fairseq_ext.classifiers.task_split import METRICS, ClassificationSplit, ClassificationTask
from fairseq_ext.corpora.labelled_text import TABLES, is_table
from fairseq_ext.corpora.raw_text import ON_BAD_UTF8
from fairseq_ext.domains.names import is_domain_name
from fairseq_ext.experiments.classification.systems import RobertaSystem, read_systems
from fairseq_ext.experiments.kinds import load_as
from fairseq_ext.inputs.errors import InputError
from fairseq_ext.inputs.models import read_model
from fairseq_ext.inputs.sections import (
    as_mapping,
    check_choice,
    check_keys,
    check_numbers,
    check_seed,
    read_section,
)
from fairseq_ext.recipes.config import Run, fitting_run
from fairseq_ext.text.subwords import SentencePiece


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


class Subwords(SentencePiece):
    """A SentencePiece model of the base model's text or, where ``imported`` is given, those of an imported model.

    ``imported`` names a folder made by ``scripts/import_roberta.py``; the other options are then not used.
    """

    imported: str | None = None


@dataclass(frozen=True)
class Evaluation:
    """What is measured beyond the metrics of the tasks, and how.

    Attributes:
        batch_size: sentences in a batch.
        cpu: whether to leave a GPU alone.
        reading: Markdown file beside the experiment file, with words on the results.
    """

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
    """

    path: Path = field(metadata={"in_file": False})
    work_dir: Path
    tasks: dict[str, ClassificationTask]
    corpora: BaseText | None = None
    seed: int = 1
    split: ClassificationSplit = ClassificationSplit()
    subwords: Subwords = Subwords()
    systems: Mapping[str, RobertaSystem] = field(default_factory=dict, metadata={"in_file": False})
    evaluate: Evaluation = Evaluation()

    @cached_property
    def runs(self) -> Mapping[str, Sequence[Run]]:
        """The runs of every system, by its name."""
        return {name: system.runs(self.seed) for name, system in self.systems.items()}

    @cached_property
    def task_runs(self) -> Sequence[Run]:
        """The runs of all systems that are trained for tasks, in order."""
        return [run for name, runs in self.runs.items() for run in runs if not self.systems[name].is_base]

    def start_of(self, run: Run) -> Run | None:
        """The run that a run starts from: the base's or, in a sequence, that of the task before.

        Raises:
            InputError: if the base has several runs, and none of the seed.
        """
        if run.system.start is None:
            return None
        system = self.systems[run.system.name]
        position = system.tasks.index(str(run.domain)) if system.in_sequence else 0
        if position > 0:
            before = (system.tasks[position - 1], run.seed)
            return next(other for other in self.runs[run.system.name] if (other.domain, other.seed) == before)
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
        "subwords": lambda value, where: read_model(Subwords, value, where, {}),
    }
    late = {key: as_mapping(raw.pop(key, {}), f"{path}: {key}") for key in ("train", "evaluate")}
    sections = {key: reader(raw.pop(key), f"{path}: {key}") for key, reader in readers.items() if key in raw}
    config: ClassificationExperiment = read_section(
        ClassificationExperiment, raw, str(path), given={**sections, "path": path}, others=("train",)
    )
    _check(config)
    systems = read_systems(late["train"], list(config.tasks), f"{path}: train")
    config = dataclasses.replace(
        config,
        systems=systems,
        evaluate=_evaluation(late["evaluate"], f"{path}: evaluate"),
    )
    # Whatever run a system starts from is there.
    for run in chain.from_iterable(config.runs.values()):
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
    check_numbers(dataclasses.asdict(config.split), f"{where}: split")
    if config.split.task_valid + config.split.task_test >= 1:
        raise InputError(f"{where}: split: task_valid and task_test leave nothing to train on; lower them")


def _evaluation(value: Mapping[str, Any], where: str) -> Evaluation:
    evaluation: Evaluation = read_section(Evaluation, value, where)
    check_numbers({"batch_size": evaluation.batch_size}, where)
    return evaluation
