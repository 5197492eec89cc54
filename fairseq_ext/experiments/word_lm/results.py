"""What an experiment with word language models has measured, read from its folder, and what its file says."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fairseq_ext.experiments.training import LOG_FILE, system_dir
from fairseq_ext.experiments.training_log import TrainingLog, read_training_log
from fairseq_ext.experiments.word_lm.config import WordLmExperiment
from fairseq_ext.experiments.word_lm.train import KNESER_NEY
from fairseq_ext.report.records import read_result as read_record

# Relative to the experiment's folder; the first two are by run.
PERPLEXITY_FILE = "perplexity/{}/perplexity.json"
TRAINING_FILE = f"systems/{{}}/{LOG_FILE}"
COVERAGE_FILE = "word-vectors/coverage.json"
COUNTS_FILE = "text/counts.json"


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

    def runs_of(self, name: str) -> Sequence[str]:
        """The runs of a system, or the only one of the n-gram model."""
        return self.runs.get(name, [name])


@dataclass(frozen=True)
class WordLmResults:
    """The records of an experiment; what has not been made is missing.

    Attributes:
        perplexity: by run; see :mod:`fairseq_ext.experiments.word_lm.evaluate`.
        logs: by run, of its training.
        coverage: by file of word vectors, how many words have one.
        counts: by set, its lines and tokens.
    """

    perplexity: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    logs: Mapping[str, TrainingLog] = field(default_factory=dict)
    coverage: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    counts: Mapping[str, Mapping[str, int]] = field(default_factory=dict)

    def perplexities(self, runs: Sequence[str], split: str) -> list[float]:
        """Of those runs that were measured."""
        sets = [self.perplexity[run]["sets"][split] for run in runs if run in self.perplexity]
        return [math.exp(each["nats"] / each["tokens"]) for each in sets]


def read_results(config: WordLmExperiment) -> WordLmResults:
    """Read whatever records there are.

    Raises:
        InputError: if one of them cannot be read.
    """
    runs = [run.name for run in config.all_runs]
    records = {run: read_record(config.work_dir / PERPLEXITY_FILE.format(run)) for run in [*runs, KNESER_NEY]}
    logs = {run: system_dir(config, run) / LOG_FILE for run in runs}
    return WordLmResults(
        {run: record for run, record in records.items() if record is not None},
        {run: read_training_log(path) for run, path in logs.items() if path.is_file()},
        read_record(config.work_dir / COVERAGE_FILE) or {},
        read_record(config.work_dir / COUNTS_FILE) or {},
    )


def result_files(config: WordLmExperiment) -> list[Path]:
    """Where all records would be."""
    runs = [run.name for run in config.all_runs]
    names = [PERPLEXITY_FILE.format(run) for run in [*runs, KNESER_NEY]]
    names += [TRAINING_FILE.format(run) for run in runs]
    return [config.work_dir / name for name in [*names, COVERAGE_FILE, COUNTS_FILE]]
