"""The experiment file of classifiers: text and labelled tasks, and the systems that are trained for them.

A system without ``from`` is a *base*: a masked language model that is trained, or a ``checkpoint``. The others start
from a base and are trained once for each task: ``full@sst2``, ``full@trec``, with several seeds ``full@sst2@1``. The
domain of such a run is the name of the task.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated

from pydantic import Field, model_validator

from fairseq_ext.classifiers.task_split import ClassificationSplit, ClassificationTask
from fairseq_ext.corpora.subwords import SentencePiece
from fairseq_ext.engine.fairseq_cli import check_counts, option_of
from fairseq_ext.inputs.domain_names import NAME_PATTERN
from fairseq_ext.inputs.errors import check_choice
from fairseq_ext.inputs.models import EMPTY_AS_DEFAULTS, Count, File, OneOrMore
from fairseq_ext.modules.tunings import ARCHITECTURE, DEFAULT_TUNING
from fairseq_ext.recipes.config import Experiment, Measuring, Run
from fairseq_ext.recipes.language_models import TrainedOrGiven
from fairseq_ext.recipes.text_steps import TextFolder

_CHANGING_BASE = ("top", "full")
_COUNTED = ("batch-size", "update-freq", "max-epoch", "max-update")  # the length of a training follows from them


class Subwords(SentencePiece):
    """A SentencePiece model of the base model's text, or the subwords of an imported model."""

    imported: File | None = None
    """A folder made by fairseq-ext import roberta; the other options are then not used."""


class Evaluate(Measuring):
    """How systems are measured."""

    batch_size: Count = 64
    """Sentences in a batch."""


class TaskSystem(TrainedOrGiven):
    """A base, or a system that is trained for tasks. Keys that are not listed are options of fairseq-train."""

    tasks: OneOrMore[str] | None = None
    """The tasks that it is trained for; by default all, in the order of the file."""
    in_sequence: bool = False
    """Whether each task starts from the checkpoint of the task before, so that the last checkpoint has all tasks."""

    @property
    def is_base(self) -> bool:
        """Whether it is a masked language model that others start from."""
        return not str(option_of(self.options, "arch")).startswith(ARCHITECTURE)

    @property
    def tuning(self) -> str | None:
        """Which parameters are trained for a task, one of ``modules.tunings.TUNINGS``; None for a base."""
        return None if self.is_base else str(option_of(self.options, "tuning") or DEFAULT_TUNING)

    @model_validator(mode="after")
    def _check_keys_of_role(self) -> TaskSystem:
        misplaced = ("tasks", "in_sequence") if self.is_base else ("checkpoint", "data")
        for key in misplaced:
            if getattr(self, key):
                raise ValueError(f"{key}: is not for {'a base' if self.is_base else 'tasks'}; take it out")
        if self.in_sequence and self.tuning in _CHANGING_BASE:
            raise ValueError(f"in_sequence: tuning: {self.tuning} changes the base, which the tasks share")
        return self

    @model_validator(mode="after")
    def _check_needed_options(self) -> TaskSystem:
        if self.is_base:
            return self
        if option_of(self.options, "batch-size") is None:
            raise ValueError("batch-size: is missing")
        check_counts(self.options, _COUNTED, self.place.where)
        if all(option_of(self.options, key) is None for key in ("max-epoch", "max-update")):
            raise ValueError("max-epoch: is missing; the learning rate falls to 0 at the end of the last epoch")
        return self


class Classification(Experiment[TaskSystem]):
    """An experiment with classifiers on one encoder."""

    tasks: Annotated[dict[Annotated[str, Field(pattern=NAME_PATTERN)], ClassificationTask], Field(min_length=1)]
    """The tasks by name, which is that of the head, adapters and layer norms."""
    corpora: TextFolder | None = None
    """Text of the base; none if its subwords are imported."""
    split: Annotated[ClassificationSplit, EMPTY_AS_DEFAULTS] = ClassificationSplit()
    subwords: Annotated[Subwords, EMPTY_AS_DEFAULTS] = Subwords()
    evaluate: Annotated[Evaluate, EMPTY_AS_DEFAULTS] = Evaluate()

    @property
    def task_systems(self) -> Mapping[str, TaskSystem]:
        """The systems that are trained for tasks."""
        return {name: system for name, system in self.systems.items() if not system.is_base}

    @property
    def compared_names(self) -> Sequence[str]:
        """The systems that are trained for tasks."""
        return list(self.task_systems)

    def runs_of(self, name: str) -> list[Run]:
        """The runs of a system: of a base one for each seed, of the others one for each seed and task."""
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
        """The runs that are trained for tasks."""
        return [run for name in self.task_systems for run in self.runs[name]]

    def raw_task(self, task: str) -> Path:
        """Where the sets of a task lie as text."""
        return self.work_dir / "tasks" / task

    def task_data(self, task: str) -> Path:
        """Where the sets of a task lie as numbers: a data directory of fairseq's ``sentence_prediction``."""
        return self.work_dir / "data-bin" / task

    def start_of(self, run: Run) -> Run | None:
        """The run that a run starts from: a base's or, in a sequence, that of the task before."""
        if self.systems[run.system.name].in_sequence:
            same_seed = [other for other in self.runs[run.system.name] if other.seed == run.seed]
            position = [other.domain for other in same_seed].index(run.domain)
            if position > 0:
                return same_seed[position - 1]
        return super().start_of(run)

    @model_validator(mode="after")
    def _check_text(self) -> Classification:
        if self.corpora is None and self.subwords.imported is None:
            raise ValueError("corpora: is missing; give text for the base model, or subwords: imported")
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
