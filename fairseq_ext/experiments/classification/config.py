"""Experiment file of classifiers: text, labelled tasks, and systems trained for the tasks.

A system without ``from`` is a *base*: a masked language model to train, or a ``checkpoint``. All other systems start
from a base and are trained once for each task: ``full@sst2``, ``full@trec``, with several seeds ``full@sst2@1``. The
domain of such a run is the name of the task.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated

from pydantic import Field, model_validator

from fairseq_ext.base.domain_names import NAME_PATTERN
from fairseq_ext.base.errors import check_choice
from fairseq_ext.base.fairseq_cli import check_counts, option_of
from fairseq_ext.base.sections import EMPTY_AS_DEFAULTS, Count, File, OneOrMore
from fairseq_ext.classifiers.task_split import ClassificationSplit, ClassificationTask
from fairseq_ext.experiments.config import Experiment, Measuring, Run
from fairseq_ext.experiments.language_models import TextFolder, TrainedOrGiven
from fairseq_ext.modules.tunings import ARCHITECTURE, DEFAULT_TUNING
from fairseq_ext.text.subwords import SentencePiece

_CHANGING_BASE = ("top", "full")
_COUNTED = ("batch-size", "update-freq", "max-epoch", "max-update")  # these determine the length of training


class Subwords(SentencePiece):
    """SentencePiece model trained on the base model's text, or the subwords of an imported model."""

    imported: File | None = None
    """Folder created by fairseq-ext import roberta; all other options are then ignored."""


class Evaluate(Measuring):
    """Options of the evaluation."""

    batch_size: Count = 64
    """Number of sentences in a batch."""


class TaskSystem(TrainedOrGiven):
    """A base, or a system trained for tasks. Keys that are not listed are options of fairseq-train."""

    tasks: OneOrMore[str] | None = None
    """Tasks to train for; by default all, in the order of the file."""
    in_sequence: bool = False
    """Whether each task starts from the checkpoint of the previous task; the last checkpoint then has all tasks."""

    @property
    def is_base(self) -> bool:
        """Whether the system is a masked language model that other systems start from."""
        return not str(option_of(self.options, "arch")).startswith(ARCHITECTURE)

    @property
    def tuning(self) -> str | None:
        """Tuning method, one of ``modules.tunings.TUNINGS``, which selects the trained parameters; None for a base."""
        return None if self.is_base else str(option_of(self.options, "tuning") or DEFAULT_TUNING)

    @model_validator(mode="after")
    def _check_keys_of_role(self) -> TaskSystem:
        misplaced = ("tasks", "in_sequence") if self.is_base else ("checkpoint", "data")
        for key in misplaced:
            if getattr(self, key):
                raise ValueError(
                    f"{key}: is not a key of {'a base' if self.is_base else 'systems for tasks'}; remove it"
                )
        if self.in_sequence and self.tuning in _CHANGING_BASE:
            raise ValueError(
                f"in_sequence: tuning: {self.tuning} changes the base, which the tasks share; choose another tuning"
            )
        return self

    @model_validator(mode="after")
    def _check_needed_options(self) -> TaskSystem:
        if self.is_base:
            return self
        if option_of(self.options, "batch-size") is None:
            raise ValueError("batch-size: is missing; set it")
        check_counts(self.options, _COUNTED, self.place.where)
        if all(option_of(self.options, key) is None for key in ("max-epoch", "max-update")):
            raise ValueError(
                "max-epoch: is missing; set it or max-update, since the learning rate falls to 0 at the end"
            )
        return self


class Classification(Experiment[TaskSystem]):
    """Experiment with classifiers on one encoder."""

    tasks: Annotated[dict[Annotated[str, Field(pattern=NAME_PATTERN)], ClassificationTask], Field(min_length=1)]
    """Tasks by name. Heads, adapters and layer norms have the names of their tasks."""
    corpora: TextFolder | None = None
    """Text for the base; optional if subwords are imported."""
    split: Annotated[ClassificationSplit, EMPTY_AS_DEFAULTS] = ClassificationSplit()
    subwords: Annotated[Subwords, EMPTY_AS_DEFAULTS] = Subwords()
    evaluate: Annotated[Evaluate, EMPTY_AS_DEFAULTS] = Evaluate()

    @property
    def task_systems(self) -> Mapping[str, TaskSystem]:
        """Systems trained for tasks, by name."""
        return {name: system for name, system in self.systems.items() if not system.is_base}

    @property
    def compared_names(self) -> Sequence[str]:
        """Names of the systems trained for tasks."""
        return list(self.task_systems)

    def runs_of(self, name: str) -> list[Run]:
        """Return the runs of a system: one per seed for a base, otherwise one per seed and task."""
        system, runs = self.systems[name], super().runs_of(name)
        if system.is_base:
            return runs
        return [
            Run(run.name.replace(name, f"{name}@{task}", 1), system, run.seed, task)
            for run in runs
            for task in system.tasks or self.tasks
        ]

    @property
    def task_runs(self) -> Sequence[Run]:
        """Runs of all systems trained for tasks."""
        return [run for name in self.task_systems for run in self.runs[name]]

    def raw_task(self, task: str) -> Path:
        """Return the directory of a task's splits as text."""
        return self.work_dir / "tasks" / task

    def task_data(self, task: str) -> Path:
        """Return the directory of a task's binarised splits, in the format of fairseq's ``sentence_prediction``."""
        return self.work_dir / "data-bin" / task

    def start_of(self, run: Run) -> Run | None:
        """Return the run that a run starts from: that of a base or, in a sequence, that of the previous task."""
        if self.systems[run.system.name].in_sequence:
            same_seed = [other for other in self.runs[run.system.name] if other.seed == run.seed]
            position = [other.domain for other in same_seed].index(run.domain)
            if position > 0:
                return same_seed[position - 1]
        return super().start_of(run)

    @model_validator(mode="after")
    def _check_text(self) -> Classification:
        if self.corpora is None and self.subwords.imported is None:
            raise ValueError("corpora: is missing; give text for the base model, or set subwords: imported")
        return self

    @model_validator(mode="after")
    def _check_systems(self) -> Classification:
        bases = [name for name, system in self.systems.items() if system.is_base]
        for name, system in self.task_systems.items():
            where = f"{self.path}: train: systems: {name}"
            check_choice(system.start, bases, f"{where}: from")
            for task in system.tasks or ():
                check_choice(task, list(self.tasks), f"{where}: tasks")
        return self
