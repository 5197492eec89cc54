"""What the measurements and reports of all recipes share: steps that write records, and the records of trainings."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from fairseq_ext.engine.steps import Step
from fairseq_ext.inputs.json_file import read_json
from fairseq_ext.metrics.comparison import Comparison, compare_runs, read_comparisons
from fairseq_ext.metrics.records import RECORDS_FILE, Record, Records, read_records, write_records
from fairseq_ext.metrics.render import Page, write_report
from fairseq_ext.metrics.tables import Column, Table
from fairseq_ext.recipes.config import Experiment
from fairseq_ext.recipes.grids import name_of
from fairseq_ext.recipes.train import LOG_FILE, read_training_log, system_dir
from fairseq_ext.recipes.tune import TRIALS_FILE, first_run

# Metrics of trainings.
BEST_EPOCH, EPOCHS, SECONDS, VALID_BY_EPOCH = "best epoch", "epochs", "seconds", "validation perplexity by epoch"
_TRIAL = "best validation "


def measure_step(
    output: Path, inputs: Sequence[Path], options: Mapping[str, Any], measure: Callable[[], Iterable[Record]]
) -> Step:
    """The step that writes the records that ``measure`` makes to ``records.jsonl``; see :class:`Step`."""
    return Step(output, inputs, options, lambda folder: write_records(folder / RECORDS_FILE, measure()))


def records_files(steps: Iterable[Step]) -> list[Path]:
    """The files that measuring steps write."""
    return [step.output / RECORDS_FILE for step in steps]


def measured(steps: Iterable[Step]) -> list[Record]:
    """The records that measuring steps have written so far."""
    return [record for path in records_files(steps) if path.is_file() for record in read_records(path)]


def comparisons_in(path: Path) -> list[Comparison]:
    """The comparisons of a file; none before it is made."""
    return read_comparisons(path) if path.is_file() else []


def metric_column(records: Records, heading: str, metric: str, *domains: str, **options: Any) -> Column:
    """A column of a metric over rows that are systems, averaged over domains; ``options`` as :class:`Column` has."""
    return Column(heading, lambda system: records.mean(system, metric, *domains), **options)


def domain_column(records: Records, heading: str, metric: str, form: str = ",.0f") -> Column:
    """A column of a metric that belongs to no system, over rows that are domains."""
    return Column(heading, lambda domain: records.mean("", metric, domain), form)


def report_step(
    experiment: Experiment,
    sources: Sequence[Path],
    version: int,
    records: Callable[[], Records],
    page: Callable[[Records], Page],
) -> Step:
    """The step that writes ``report/`` of what there is, so run it after the other steps.

    Files of ``sources`` that are missing are left out. Raise the version when the report comes to say something else.
    """
    found = [path for path in sources if path.is_file()]
    work_dir = experiment.work_dir
    names = [path.relative_to(work_dir).as_posix() if path.is_relative_to(work_dir) else path.name for path in found]
    systems = {name: system.options for name, system in experiment.systems.items()}
    options = {"version": version, "files": names, "systems": systems, "compare": experiment.compare}

    def build(folder: Path) -> None:
        measured = records()
        write_report(folder, page(measured), measured)

    return Step(work_dir / "report", found, options, build)


def compare_systems(
    records: Records, pairs: Mapping[str, Sequence[str]], metric: str, domains: Sequence[str] = ("",)
) -> list[Comparison]:
    """Compare systems with their baselines over runs; pairs that were not measured are left out."""
    return [
        comparison
        for system, baselines in pairs.items()
        for baseline in baselines
        for domain in domains
        if (comparison := compare_runs(records, system, baseline, metric, domain))
    ]


def training_files(experiment: Experiment) -> list[Path]:
    """The files that trainings leave for the report: logs, and the results of trials."""
    logs = [system_dir(experiment, run.name) / LOG_FILE for run in experiment.all_runs]
    return [*logs, *trial_files(experiment)]


def trial_files(experiment: Experiment) -> list[Path]:
    """The files with the results of trials."""
    return [system_dir(experiment, run.name) / TRIALS_FILE for run in experiment.all_runs]


def training_records(experiment: Experiment) -> Iterator[Record]:
    """Epochs, time and validation perplexity of the trainings, and the results of trials."""
    for run in experiment.all_runs:
        log = system_dir(experiment, run.name) / LOG_FILE
        if not log.is_file():
            continue
        valid, _, seconds = read_training_log(log)
        of = partial(Record, system=run.system.name, run=run.name, seed=run.seed)
        if valid:
            yield of(metric=BEST_EPOCH, value=min(valid, key=valid.__getitem__))
            yield of(metric=EPOCHS, value=max(valid))
        if seconds is not None:
            yield of(metric=SECONDS, value=seconds)
        for epoch, perplexity in valid.items():
            yield of(domain=str(epoch), metric=VALID_BY_EPOCH, value=perplexity)
    yield from trial_records(experiment)


def trial_records(experiment: Experiment) -> Iterator[Record]:
    """The results of trials that came to a number; ``n`` is 1 for the chosen one and 0 for the others."""
    for run, path in zip(experiment.all_runs, trial_files(experiment), strict=True):
        if not path.is_file() or first_run(run, experiment.runs[run.system.name]) != run:
            continue
        found = read_json(path, "make it again")
        of = partial(Record, system=run.system.name, seed=run.seed, metric=f"{_TRIAL}{found['metric']}")
        for trial in found["trials"]:
            name, values, figure = trial["run"], trial["values"], trial["figure"]
            if figure is not None:
                yield of(run=name, domain=name_of(values), value=figure, n=int(name == found["chosen"]))


def tuning_tables(records: Records) -> list[Table]:
    """A table of trials for each metric that trials were chosen by; none without trials."""
    metrics = dict.fromkeys(record.metric for record in records if record.metric.startswith(_TRIAL))
    return [_tuning_table(records, metric) for metric in metrics]


def _tuning_table(records: Records, metric: str) -> Table:
    trials = {record.run: record for record in records if record.metric == metric}
    columns = [
        Column("System", lambda row: trials[row].system, is_text=True),
        Column(metric, lambda row: trials[row].value, ".3f"),
        Column("Chosen", lambda row: "yes" if trials[row].n else None),
    ]
    note = "One training each, with the first seed of the system. Further seeds train with the chosen values."
    return Table("Trials", "Trial", list(trials), columns, [note])
