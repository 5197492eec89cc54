"""Scores of several runs on test sets: by domain, averaged, on the classifier-error subset, and on further sets.

All runs are scored on the test sentences and on the same resamples of them, for paired tests.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from fairseq_ext.metrics.bootstrap import average, resampled_sums
from fairseq_ext.metrics.corpus_metrics import CorpusMetric, SacrebleuMetric

AVERAGE, WEIGHTED_AVERAGE, ERRORS = "AVG", "wAVG", "misclassified"

Counts = dict[str, np.ndarray]  # N×S of a metric by test set, see corpus_metrics
Columns = dict[str, np.ndarray]  # by column the score, then that of each of R resamples: 1+R


@dataclass(frozen=True)
class TestSets:
    """Test sets by name: every domain in order, then others."""

    domains: Sequence[str]
    sources: Mapping[str, Sequence[str]]  # N lines of each set
    references: Mapping[str, Sequence[str]]  # their translations
    files: Mapping[str, Path]  # of the references, for messages
    train_sizes: Mapping[str, int]  # training sentences of each domain, the weights of wAVG
    # Of each domain, which of its N sentences are classifier errors; None without a classifier.
    errors: Mapping[str, np.ndarray] | None

    @property
    def num_errors(self) -> int:
        """The size of the classifier-error subset."""
        return sum(int(wrong.sum()) for wrong in (self.errors or {}).values())

    @property
    def sizes(self) -> dict[str, int]:
        """The sentences of every column of scores."""
        sizes = {name: len(lines) for name, lines in self.references.items()}
        total = sum(sizes[name] for name in self.domains)
        return {**sizes, AVERAGE: total, WEIGHTED_AVERAGE: total, ERRORS: self.num_errors}


def count_text(
    metrics: Mapping[str, SacrebleuMetric], translations: Sequence[Mapping[str, Sequence[str]]], tests: TestSets
) -> dict[str, list[Counts]]:
    """Count what metrics need in the lines of every run by test set; the result is by metric, run and test set."""
    counts: dict[str, list[Counts]] = {name: [{} for _ in translations] for name in metrics}
    for name, references in tests.references.items():
        having = [number for number, lines in enumerate(translations) if name in lines]
        for metric_name, metric in metrics.items():
            counted = metric.count([translations[number][name] for number in having], references)
            for number, array in zip(having, counted, strict=True):
                counts[metric_name][number][name] = array
    return counts


def score_columns(run: Counts, metric: CorpusMetric, tests: TestSets, resamples: int, seed: int) -> Columns:
    """All columns of the table for a run, on the test sentences and on R resamples of them.

    AVG is the plain average over domains, wAVG is weighted by training sentences (Klimaszewski et al. 2023, Table 4).
    ``misclassified`` is the corpus of all classifier errors. Sentences are drawn within each test set, and the draws
    are the same for all runs. A run without all domains has neither averages nor ``misclassified``.

    Shape:
        result: by column 1+R; 1 where sentences are too few
    """

    def score(name: str, counts: np.ndarray) -> np.ndarray:
        # The seed has the name, so that a set more or less changes nothing for the others.
        sums = resampled_sums(counts, resamples, [seed, *name.encode()])
        return np.array([metric.score(row) for row in sums.tolist()])

    columns = {name: score(name, run[name]) for name in tests.domains if name in run}
    if len(columns) == len(tests.domains):
        values, weights = list(columns.values()), [tests.train_sizes[name] for name in columns]
        columns |= {AVERAGE: average(values), WEIGHTED_AVERAGE: average(values, weights)}
        if tests.errors and tests.num_errors:
            wrong = [run[name][tests.errors[name]] for name in tests.domains]
            columns[ERRORS] = score(ERRORS, np.concatenate(wrong))
    others = [name for name in tests.references if name in run and name not in tests.domains]
    return columns | {name: score(name, run[name]) for name in others}


def means(runs: Sequence[Columns]) -> Columns:
    """The means over runs of the columns that all of them have."""
    shared = [column for column in runs[0] if all(column in run for run in runs)]
    return {column: np.mean([run[column] for run in runs], axis=0) for column in shared}
