"""The experiment file of classifiers: one YAML from text and labelled tasks to measured adapters.

All but ``train``, ``sweep`` and ``evaluate`` is checked here, once, before anything runs; these are handed on to
:mod:`fairseq_ext.experiment.classification`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fairseq_ext.corpora.labelled_text import TABLES, Columns, is_table
from fairseq_ext.corpora.raw_text import ON_BAD_UTF8
from fairseq_ext.domains.names import is_domain_name
from fairseq_ext.errors import InputError
from fairseq_ext.experiment.config import SentencePiece, check_sentencepiece
from fairseq_ext.experiment.yaml_sections import (
    as_mapping,
    check_choice,
    check_numbers,
    check_seed,
    load_yaml,
    read_section,
)

# What a task can be measured by, by its kind; the first is the one it is measured by if the file does not say.
METRICS = {"classification": ("accuracy", "f1", "matthews"), "regression": ("spearman", "pearson")}


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
class ClassificationSplit:
    """Sizes of held-out sets.

    Attributes:
        valid: lines of each domain of the base model's text, to choose its checkpoint by.
        stretch: consecutive lines that are held out together.
        task_valid: share of the training examples for the validation set of a task that has none.
        task_test: share for the test set of a task that has none.
    """

    valid: int = 1000
    stretch: int = 50
    task_valid: float = 0.1
    task_test: float = 0.1


@dataclass(frozen=True)
class ClassificationSubwords(SentencePiece):
    """A SentencePiece model of the base model's text or, where ``imported`` is given, those of an imported model.

    ``imported`` names a folder made by ``scripts/import_roberta.py``; the other options are then not used.
    """

    imported: str | None = None


@dataclass(frozen=True)
class ClassificationTask:
    """A task: labelled examples, in tables as :mod:`fairseq_ext.corpora.labelled_text` reads them.

    Attributes:
        name: of the task, its head, its adapters and norms.
        train: table of the training set.
        valid: table of the validation set; None for a part of the training set.
        test: table of the test set; None for a part of the training set.
        label: column of the labels or numbers.
        text: column of the text.
        text2: column of the second text of a pair; None for single texts.
        kind: ``classification``, or ``regression`` for numbers.
        metrics: what it is measured by, see ``METRICS``; the first is the main one.
    """

    name: str = field(metadata={"in_file": False})
    train: Path
    valid: Path | None = None
    test: Path | None = None
    label: str = "label"
    text: str = "text"
    text2: str | None = None
    kind: str = "classification"
    metrics: list[str] = field(default_factory=list)

    @property
    def columns(self) -> Columns:
        """Where its tables have what."""
        texts = (self.text,) if self.text2 is None else (self.text, self.text2)
        return Columns(self.label, texts, is_number=self.kind == "regression")

    @property
    def tables(self) -> dict[str, Path]:
        """Its tables by set."""
        paths = {"train": self.train, "valid": self.valid, "test": self.test}
        return {role: path for role, path in paths.items() if path is not None}


@dataclass(frozen=True)
class ClassificationExperiment:
    """A whole experiment file; ``path`` is where it was read from, and ``corpora`` None if the base is imported."""

    path: Path = field(metadata={"in_file": False})
    work_dir: Path
    tasks: dict[str, ClassificationTask]
    corpora: BaseText | None = None
    seed: int = 1
    split: ClassificationSplit = ClassificationSplit()
    subwords: ClassificationSubwords = ClassificationSubwords()
    train: dict[str, Any] = field(default_factory=dict)
    sweep: dict[str, Any] = field(default_factory=dict)
    evaluate: dict[str, Any] = field(default_factory=dict)


def load_classification_config(path: Path) -> ClassificationExperiment:
    """Read and check an experiment file of classifiers.

    Raises:
        InputError: naming the file and key, and what is allowed there.
    """
    raw = dict(load_yaml(path))
    readers: dict[str, Callable[[Any, str], Any]] = {
        "tasks": _tasks,
        "corpora": lambda value, where: read_section(BaseText, value, where),
        "split": lambda value, where: read_section(ClassificationSplit, value, where),
        "subwords": lambda value, where: read_section(ClassificationSubwords, value, where),
        "train": as_mapping,
        "sweep": as_mapping,
        "evaluate": as_mapping,
    }
    sections = {key: read(raw.pop(key), f"{path}: {key}") for key, read in readers.items() if key in raw}
    config: ClassificationExperiment = read_section(
        ClassificationExperiment, raw, str(path), given={**sections, "path": path}
    )
    _check(config)
    return config


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
