"""What an experiment with word language models has measured, read from its folder, and what its file says."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from fairseq_ext.experiments.training import LOG_FILE, system_dir
from fairseq_ext.experiments.training_log import TrainingLog, read_training_log
from fairseq_ext.experiments.word_lm.config import WordLmExperiment
from fairseq_ext.experiments.word_lm.train import KNESER_NEY
from fairseq_ext.report.records import Record, Records, read_result, results_by_name

# Relative to the experiment's folder; the first two are by run.
PERPLEXITY_FILE = "perplexity/{}/perplexity.json"
TRAINING_FILE = f"systems/{{}}/{LOG_FILE}"
COVERAGE_FILE = "word-vectors/coverage.json"
COUNTS_FILE = "text/counts.json"

# What records are called; those of the text and of word vectors as in their files.
PERPLEXITY, PARAMETERS = "perplexity", "parameters"
BEST_EPOCH, EPOCHS, SECONDS = "best epoch", "epochs", "seconds"


@dataclass(frozen=True)
class WordLmDesign:
    """What the experiment file says.

    Attributes:
        name: the experiment's, which is its folder's.
        systems: by name, how they combine word vectors; in the order of the file.
        runs: of each system.
        order: of the n-gram model; None without one.
        discounts: where those of the n-gram model are from.
    """

    name: str
    systems: Mapping[str, str]
    runs: Mapping[str, Sequence[str]]
    order: int | None = None
    discounts: str = ""

    @classmethod
    def of(cls, config: WordLmExperiment) -> WordLmDesign:
        """Take it from an experiment."""
        baseline = config.kneser_ney
        return cls(
            config.work_dir.name,
            {name: system.combination for name, system in config.systems.items()},
            {name: [run.name for run in runs] for name, runs in config.runs.items()},
            baseline.order if baseline else None,
            baseline.discounts if baseline else "",
        )

    def with_combination(self, combination: str) -> list[str]:
        """The systems that combine word vectors so."""
        return [name for name, own in self.systems.items() if own == combination]


@dataclass(frozen=True)
class WordLmResults:
    """What the steps of an experiment have measured; what has not been made is missing.

    Attributes:
        records: perplexities by set, parameters, trainings, the text, and by file the word vectors.
        logs: by run, of its training.
        coverage: by file of word vectors, how many words have one.
    """

    records: Records = Records()
    logs: Mapping[str, TrainingLog] = field(default_factory=dict)
    coverage: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    @property
    def sets(self) -> list[str]:
        """The sets of the text, once it has been prepared."""
        return [record.domain for record in self.records if record.metric == "lines"]


def read_results(config: WordLmExperiment) -> WordLmResults:
    """Read whatever results there are.

    Raises:
        InputError: if one of them cannot be read.
    """
    systems = {run.name: run.system.name for run in config.all_runs}
    logs = {run: system_dir(config, run) / LOG_FILE for run in systems}
    trainings = {run: read_training_log(path) for run, path in logs.items() if path.is_file()}
    coverage = read_result(config.work_dir / COVERAGE_FILE) or {}
    coverage = {file.rpartition("/")[2]: entry for file, entry in coverage.items()}
    measured = results_by_name(config.work_dir, PERPLEXITY_FILE, [*systems, KNESER_NEY])
    records = [
        *_of_perplexities(measured, {**systems, KNESER_NEY: KNESER_NEY}),
        *_of_trainings(trainings, systems),
        *_of_text(read_result(config.work_dir / COUNTS_FILE) or {}, COUNTS_FILE),
        *_of_text(coverage, COVERAGE_FILE),
    ]
    return WordLmResults(Records(records), trainings, coverage)


def _of_perplexities(results: Mapping[str, Mapping[str, Any]], systems: Mapping[str, str]) -> Iterator[Record]:
    for run, found in results.items():
        record = partial(Record, systems[run], run, source=PERPLEXITY_FILE.format(run))
        yield record("", PARAMETERS, value=found["parameters"])
        for split, counts in found["sets"].items():
            yield record(split, PERPLEXITY, value=math.exp(counts["nats"] / counts["tokens"]))


def _of_trainings(logs: Mapping[str, TrainingLog], systems: Mapping[str, str]) -> Iterator[Record]:
    for run, log in logs.items():
        values = {BEST_EPOCH: log.best_epoch, EPOCHS: max(log.valid, default=None), SECONDS: log.seconds}
        for metric, value in values.items():
            if value is not None:
                yield Record(systems[run], run, "", metric, value, TRAINING_FILE.format(run))


def _of_text(result: Mapping[str, Mapping[str, Any]], source: str) -> Iterator[Record]:
    """All numbers of its entries."""
    for name, entry in result.items():
        for metric, value in entry.items():
            if isinstance(value, (int, float)):
                yield Record("", "", name, metric, value, source)


def result_files(config: WordLmExperiment) -> list[Path]:
    """Where all records would be."""
    runs = [run.name for run in config.all_runs]
    names = [PERPLEXITY_FILE.format(run) for run in [*runs, KNESER_NEY]]
    names += [TRAINING_FILE.format(run) for run in runs]
    return [config.work_dir / name for name in [*names, COVERAGE_FILE, COUNTS_FILE]]
