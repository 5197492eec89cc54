"""What a report says of tuning: every trial's figure, the chosen one, and whether systems had equally many trials."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fairseq_ext.engine.steps import Step
from fairseq_ext.recipes.config import Run, System
from fairseq_ext.recipes.grids import name_of, num_trials, spelled
from fairseq_ext.recipes.train import InFolder
from fairseq_ext.recipes.tune import TRIALS_FILE, first_run
from fairseq_ext.report.content import NOTHING, Below, Block, Cell, Missing, Report, Row, Section, Table, Text
from fairseq_ext.report.figures import NOT_MEASURED
from fairseq_ext.report.records import Record, Records, results_by_name
from fairseq_ext.report.writing import step_of_report

_FILE = f"systems/{{}}/{TRIALS_FILE}"
_VERSION = 1
_TITLE = "Trials and their figures on the validation set"


@dataclass(frozen=True)
class Tuned:
    """A system, or one task or domain of it, and what its trials came to.

    Attributes:
        run: the first.
        metric: what the figures are.
        is_maximized: whether more of it is better.
        trials: by run, the values and the figure; None for one that was no number.
        chosen: the trial that was best.
    """

    run: Run
    metric: str
    is_maximized: bool
    trials: Mapping[str, tuple[Mapping[str, Any], float | None]]
    chosen: str

    @property
    def name(self) -> str:
        """The system's, and the task's or domain's."""
        return ", ".join(filter(None, (self.run.system.name, self.run.domain)))

    def at_edge(self) -> Iterator[str]:
        """The chosen values that have none beyond them among those tried, in words."""
        values, _ = self.trials[self.chosen]
        for option, chosen in values.items():
            tried = [each[option] for each, _ in self.trials.values()]
            if any(isinstance(value, bool | str) for value in tried) or min(tried) == max(tried):
                continue
            if chosen in (min(tried), max(tried)):
                yield f"{option} {spelled(chosen)}, the {'lowest' if chosen == min(tried) else 'highest'}"


@dataclass(frozen=True)
class TuningReport:
    """What a report needs of the systems' tuning.

    Attributes:
        work_dir: the experiment's.
        systems: those that are trained, by name.
        firsts: the runs of tuned ones that are the best of their trials.
    """

    work_dir: Path
    systems: Mapping[str, System]
    firsts: Sequence[Run]

    @classmethod
    def of(cls, config: InFolder, systems: Mapping[str, System], runs: Callable[[str], Sequence[Run]]) -> TuningReport:
        """Take it from an experiment, of whose tuned systems the runs are asked for."""
        tuned = [runs(name) for name, system in systems.items() if system.tune]
        firsts = [run for each in tuned for run in each if first_run(run, each) == run]
        return cls(config.work_dir, systems, firsts)

    def step(
        self, files: Sequence[Path], reading: Path | None, options: Mapping[str, Any], make: Callable[[], Report]
    ) -> Step:
        """The step that writes the experiment's report, with the section on tuning as its last.

        Args:
            files: those that the rest is made of, as far as they are there.
            reading: the file with words on the results, if any.
            options: what else the rest depends on.
            make: the rest.
        """
        figures = [self.work_dir / _FILE.format(run.name) for run in self.firsts]
        return step_of_report(
            self.work_dir, [*files, *figures], reading, {**options, **self._options}, lambda: self._added_to(make())
        )

    def _added_to(self, report: Report) -> Report:
        records = Records([*report.records, *self.records()])
        return dataclasses.replace(report, sections=[*report.sections, *self.sections()], records=records)

    @property
    def _options(self) -> dict[str, Any]:
        """What the report depends on beside the figures; nothing where no system is tuned."""
        if not self.firsts:
            return {}
        systems = [[name, system.start, num_trials(system.tune)] for name, system in self.systems.items()]
        return {"tuning": [_VERSION, systems]}

    def read(self) -> list[Tuned]:
        """What has been tried so far.

        Raises:
            InputError: if a file with figures cannot be read.
        """
        found = results_by_name(self.work_dir, _FILE, [run.name for run in self.firsts])
        return [_tuned(run, found[run.name]) for run in self.firsts if run.name in found]

    def records(self) -> list[Record]:
        """The figures of all trials."""
        return [
            Record(
                tuned.run.system.name,
                trial,
                tuned.run.domain or "",
                _best_of(tuned),
                figure,
                _FILE.format(tuned.run.name),
            )
            for tuned in self.read()
            for trial, (_, figure) in tuned.trials.items()
            if figure is not None
        ]

    def sections(self) -> list[Section]:
        """The report's section; none where no system is tuned."""
        if not self.firsts:
            return []
        by_options: dict[tuple[str, ...], list[Tuned]] = {}
        for tuned in self.read():
            by_options.setdefault(tuple(tuned.run.system.tune), []).append(tuned)
        tables: list[Block] = [_table(options, rows) for options, rows in by_options.items()]
        counts = Text(" ".join(self._counts()))
        return [Section("tuning", "Tuning", [counts, *(tables or [Missing(_TITLE, NOT_MEASURED)])])]

    def _counts(self) -> Iterator[str]:
        """How many trials the systems had that start from the same, in a sentence each."""
        by_start: dict[str | None, dict[int, list[str]]] = {}
        for name, system in self.systems.items():
            by_start.setdefault(system.start, {}).setdefault(num_trials(system.tune), []).append(name)
        for start, by_number in by_start.items():
            those = f"systems that start from {start}" if start else "systems that start from no other"
            if len(by_number) > 1:
                said = (f"{', '.join(names)}: {number}" for number, names in by_number.items())
                yield f"**Not tuned alike:** the {those} had unequal numbers of trials ({'; '.join(said)})."
            elif (number := next(iter(by_number))) > 1:
                yield f"The {those} had {number} trials each."


def _best_of(tuned: Tuned) -> str:
    return f"best validation {tuned.metric}"


def _tuned(run: Run, found: Mapping[str, Any]) -> Tuned:
    trials = {trial["run"]: (trial["values"], trial["figure"]) for trial in found["trials"]}
    return Tuned(run, found["metric"], found["is_maximized"], trials, found["chosen"])


def _table(options: Sequence[str], rows: Sequence[Tuned]) -> Table:
    """The trials of systems that are tuned by the same options: a column a combination of values."""
    combinations: dict[str, Mapping[str, Any]] = {}
    for tuned in rows:
        combinations |= {name_of(values): values for values, _ in tuned.trials.values()}
    columns = sorted(combinations, key=lambda name: _place(combinations[name], list(combinations.values())))
    groups: dict[str, list[Row]] = {}
    for tuned in rows:
        heading = f"{_best_of(tuned)}, {'more' if tuned.is_maximized else 'less'} is better"
        groups.setdefault(heading, []).append(_row(tuned, columns))
    notes = [
        "One training a figure, all with the system’s first seed. The best of a row, in bold, is used as it is; "
        "trainings with further seeds take its values."
    ]
    if edges := [f"{tuned.name} ({edge})" for tuned in rows for edge in tuned.at_edge()]:
        notes.append(f"At the edge of what was tried, so that there may be better beyond: {'; '.join(edges)}.")
    headings = [_heading(combinations[name]) for name in columns]
    below = Below(notes, [_FILE.format("*")])
    return Table(
        f"{_TITLE}, by {' and '.join(options)}", "System", [*headings, "Chosen"], [*groups.items()], below=below
    )


def _row(tuned: Tuned, columns: Sequence[str]) -> Row:
    cells = {
        name_of(values): Cell("no number" if figure is None else f"{figure:.3f}", is_best=run == tuned.chosen)
        for run, (values, figure) in tuned.trials.items()
    }
    chosen, _ = tuned.trials[tuned.chosen]
    return Row(tuned.name, [*(cells.get(name, NOTHING) for name in columns), Cell(_heading(chosen))])


def _heading(values: Mapping[str, Any]) -> str:
    """A combination in a table whose title has the options."""
    return ", ".join(map(spelled, values.values()))


def _place(values: Mapping[str, Any], among: Sequence[Mapping[str, Any]]) -> list[float]:
    """Where a combination comes: by its numbers, or in the order of its words among all."""
    place = []
    for option, value in values.items():
        all_values = [each[option] for each in among]
        is_number = not any(isinstance(each, str) for each in all_values)
        place.append(float(value) if is_number else float(all_values.index(value)))
    return place
