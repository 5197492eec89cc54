"""Shared parts of measurements and reports: steps that write records, columns, and records of training runs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from operator import attrgetter
from pathlib import Path
from typing import Any

from fairseq_ext.base.json_file import read_json
from fairseq_ext.base.steps import Step
from fairseq_ext.experiments.config import Experiment
from fairseq_ext.experiments.metrics.comparison import Comparison, compare_runs
from fairseq_ext.experiments.metrics.records import RECORDS_FILE, Dimension, Record, Records, write_rows
from fairseq_ext.experiments.metrics.tables import Column, Table
from fairseq_ext.experiments.train import LOG_FILE, read_training_log, system_dir
from fairseq_ext.experiments.tune import TRIALS_FILE, first_run

# Metrics of training runs.
BEST_EPOCH, EPOCHS, SECONDS, VALID_BY_EPOCH = "best epoch", "epochs", "seconds", "validation perplexity by epoch"
_TRIAL = "best validation "


def measure_step(
    output: Path, inputs: Sequence[Path], options: Mapping[str, Any], measure: Callable[[], Iterable[Record]]
) -> Step:
    """Return the step that writes the records of ``measure`` to ``records.jsonl``; see :class:`Step`."""
    return Step(output, inputs, options, lambda folder: write_rows(folder / RECORDS_FILE, measure()))


def metric_column(
    records: Records, heading: str, metric: str, *domains: str, dims: Mapping[str, Dimension] = {}, **options: Any
) -> Column:
    """Make a column of a metric averaged over domains, for rows of systems; ``options`` go to :class:`Column`."""
    return Column(heading, lambda system: records.mean(system, metric, *domains, **dims), **options)


def domain_column(
    records: Records, heading: str, metric: str, form: str = ",.0f", dims: Mapping[str, Dimension] = {}
) -> Column:
    """Make a column of a metric that belongs to no system, for rows of domains."""
    return Column(heading, lambda domain: records.mean("", metric, domain, **dims), form)


def compare_systems(
    records: Records, pairs: Mapping[str, Sequence[str]], metric: str, domains: Sequence[str] = ("",)
) -> list[Comparison]:
    """Compare systems with their baselines over runs. Pairs without measurements are left out."""
    return [
        comparison
        for system, baselines in pairs.items()
        for baseline in baselines
        for domain in domains
        if (comparison := compare_runs(records, system, baseline, metric, domain))
    ]


def training_files(experiment: Experiment) -> list[Path]:
    """Return the training logs and trial results, which the report reads."""
    return [system_dir(experiment, run.name) / name for name in (LOG_FILE, TRIALS_FILE) for run in experiment.all_runs]


def training_records(experiment: Experiment) -> Iterator[Record]:
    """Yield epochs, time and validation perplexity of training runs, and the results of trials."""
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
            yield of(metric=VALID_BY_EPOCH, value=perplexity, dims={"epoch": epoch})
    yield from _trial_records(experiment)


def _trial_records(experiment: Experiment) -> Iterator[Record]:
    """Yield the results of trials with a validation metric; ``n`` is 1 for the chosen trial and 0 otherwise."""
    for run in experiment.all_runs:
        path = system_dir(experiment, run.name) / TRIALS_FILE
        if not path.is_file() or first_run(run, experiment.runs[run.system.name]) != run:
            continue
        tuned = read_json(path, "train again")
        of = partial(Record, system=run.system.name, seed=run.seed, metric=f"{_TRIAL}{tuned['metric']}")
        for trial in tuned["trials"]:
            name, values, figure = trial["run"], trial["values"], trial["figure"]
            if figure is not None:
                yield of(run=name, value=figure, n=int(name == tuned["chosen"]), dims=values)


def tuning_tables(records: Records) -> list[Table]:
    """Make a table of trials for each metric used to choose among them."""
    metrics = dict.fromkeys(record.metric for record in records if record.metric.startswith(_TRIAL))
    system = Column("System", attrgetter("system"), is_text=True)
    chosen = Column("Chosen", lambda trial: "yes" if trial.n else None)
    columns = {metric: [system, Column(metric, attrgetter("value"), ".3f"), chosen] for metric in metrics}
    note = "A trial is one training run with the first seed of the system. Further seeds use the chosen values."
    return [
        Table("Trials", "Trial", records.select(name), columns[name], [note], attrgetter("run")) for name in metrics
    ]
