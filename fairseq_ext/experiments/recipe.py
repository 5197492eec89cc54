"""A kind of experiment: how its data are prepared, its systems trained and measured, and its page made."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Generic, TypeVar

from fairseq_ext.base.jobs import THIS_MACHINE, Engine
from fairseq_ext.base.stages import Stage
from fairseq_ext.base.steps import Step
from fairseq_ext.experiments.config import Experiment, Run
from fairseq_ext.experiments.metrics.records import RECORDS_FILE, Record, Records, read_records
from fairseq_ext.experiments.metrics.render import Page, write_report
from fairseq_ext.experiments.report import training_files, training_records
from fairseq_ext.experiments.tune import steps_of_runs

ExperimentT = TypeVar("ExperimentT", bound=Experiment)


class Recipe(ABC, Generic[ExperimentT]):
    """An experiment, and what is done with it. The subclass ``RECIPE`` of ``KIND/stages.py`` is the kind ``KIND``.

    Attributes:
        experiment_type: model of the experiment file.
        measuring: name of the stage that measures.
        page_version: increase it when the page of the same records changes.
        experiment: content of the experiment file.
    """

    experiment_type: ClassVar[type[Experiment]]
    measuring: ClassVar[str] = "evaluate"
    page_version: ClassVar[int] = 1

    def __init__(self, experiment: ExperimentT) -> None:
        self.experiment = experiment

    # What a kind defines

    @abstractmethod
    def prepare(self, engine: Engine = THIS_MACHINE) -> list[Step]:
        """Return the steps that prepare the data, in order."""

    def train_run(self, run: Run) -> Step:
        """Return the step that trains one run, with the options of its system."""
        raise NotImplementedError(f"{type(self).__name__} trains no systems")

    @abstractmethod
    def measure(self) -> list[Step]:
        """Return the steps that measure. Those that write records write ``records.jsonl``."""

    @abstractmethod
    def page(self, records: Records) -> Page:
        """Make the page of the records measured so far, and of :meth:`page_files`."""

    def record_files(self) -> Sequence[Path]:
        """Return the files of records, whether or not they exist: by default those of all measuring steps."""
        return [step.output / RECORDS_FILE for step in self.measure()]

    def page_files(self) -> Sequence[Path]:
        """Return the files that the page reads, besides records and the logs of training."""
        return []

    def page_options(self) -> Mapping[str, Any]:
        """Return the options that the page depends on, besides those of the systems."""
        return {}

    def other_records(self) -> Sequence[Record]:
        """Return the records of results that no measuring step wrote."""
        return []

    # What all kinds have in common; some add stages

    def train(self, name: str) -> list[Step]:
        """Return the steps that train a system: of each run, its trials, if any, and its training."""
        return steps_of_runs(self.experiment, self.experiment.runs[name], self.train_run)

    def training_stages(self) -> list[Stage]:
        """Return the stages from the prepared data to trained systems: one with the name of each system."""
        return [Stage(name, partial(self.train, name), early=True) for name in self.experiment.systems]

    def measuring_stages(self) -> list[Stage]:
        """Return the stages from trained systems to records."""
        return [Stage(self.measuring, self.measure)]

    def stages(self) -> list[Stage]:
        """Return all stages, in order."""
        first, last = Stage("prepare", self.prepare), Stage("report", lambda: [self.report()])
        return [first, *self.training_stages(), *self.measuring_stages(), last]

    def records(self) -> Records:
        """Return all records measured so far. Those that several steps wrote are included once."""
        measured = [record for path in self.record_files() if path.is_file() for record in read_records(path)]
        return Records(list(dict.fromkeys([*self.other_records(), *training_records(self.experiment), *measured])))

    def report(self) -> Step:
        """Return the step that writes ``report/`` from the results so far."""
        work_dir = self.experiment.work_dir
        files = [*self.record_files(), *self.page_files(), *training_files(self.experiment)]
        files = [path for path in files if path.is_file()]
        names = [path.relative_to(work_dir) if path.is_relative_to(work_dir) else path.name for path in files]
        options = {
            **{"version": self.page_version, "files": list(map(str, names)), "compare": self.experiment.compare},
            "systems": {name: system.options for name, system in self.experiment.systems.items()},
        }

        def build(folder: Path) -> None:
            records = self.records()
            write_report(folder, self.page(records), records)

        return Step(work_dir / "report", files, {**options, **self.page_options()}, build)
