"""Scores of several runs on test sets: by domain, averaged, on the classifier-error subset, and on further sets.

All runs are scored on the test sentences and on the same resamples, for paired tests.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from fairseq_ext.experiments.metrics.bootstrap import average, resampled_sums
from fairseq_ext.experiments.metrics.corpus_metrics import CorpusMetric, SacrebleuMetric

AVERAGE, WEIGHTED_AVERAGE, ERRORS, GENERAL = "AVG", "wAVG", "classifier errors", "general text"

Counts = dict[str, np.ndarray]  # by test set, N×S statistics of a metric, see corpus_metrics
Columns = dict[str, np.ndarray]  # by column, the score followed by those of R resamples: 1+R


@dataclass(frozen=True)
class TestSets:
    """Test sets by name: first the domains in order, then further sets."""

    domains: Sequence[str]
    sources: Mapping[str, Sequence[str]]  # N lines of each set
    references: Mapping[str, Sequence[str]]  # N lines of each set
    files: Mapping[str, Path]  # files of the references, for error messages
    train_sizes: Mapping[str, int]  # training sentences by domain, which are the weights of wAVG
    # By domain, a mask of classifier errors among its N sentences; None without a classifier.
    errors: Mapping[str, np.ndarray] | None
    general: Sequence[str] = ()  # the further sets of text of no domain

    @property
    def num_errors(self) -> int:
        """Number of sentences in the classifier-error subset."""
        return sum(int(wrong.sum()) for wrong in (self.errors or {}).values())

    @property
    def sizes(self) -> dict[str, int]:
        """Number of sentences of each score column."""
        sizes = {name: len(lines) for name, lines in self.references.items()}
        total, general = (sum(sizes[name] for name in names) for names in (self.domains, self.general))
        return {**sizes, AVERAGE: total, WEIGHTED_AVERAGE: total, ERRORS: self.num_errors, GENERAL: general}


def count_text(
    metrics: Mapping[str, SacrebleuMetric], translations: Mapping[str, Mapping[str, Sequence[str]]], tests: TestSets
) -> dict[str, dict[str, Counts]]:
    """Compute the sentence statistics of metrics, by metric, run and test set."""
    counts: dict[str, dict[str, Counts]] = {name: {run: {} for run in translations} for name in metrics}
    for name, references in tests.references.items():
        lines = {run: sets[name] for run, sets in translations.items() if name in sets}
        for metric_name, metric in metrics.items():
            for run, array in zip(lines, metric.count(list(lines.values()), references), strict=True):
                counts[metric_name][run][name] = array
    return counts


def score_columns(run: Counts, metric: CorpusMetric, tests: TestSets, resamples: int, seed: int) -> Columns:
    """Score a run on the test sentences and on R resamples, for all columns of the table.

    AVG is the unweighted average over domains, wAVG is weighted by training sentences (Klimaszewski et al. 2023,
    Table 4). ``classifier errors`` are scored as one corpus. ``general text`` is the unweighted average over sets of no
    domain. Sentences are resampled within each test set, in the same way for all runs. A run that lacks a domain has
    neither averages over domains nor ``classifier errors``.

    Shape:
        result: 1+R per column, or 1 if there are too few sentences
    """

    def score(name: str, counts: np.ndarray) -> np.ndarray:
        # The name is part of the seed, so that adding a set does not change the resamples of other sets.
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
    columns |= {name: score(name, run[name]) for name in others}
    if tests.general and all(name in columns for name in tests.general):
        columns[GENERAL] = average([columns[name] for name in tests.general])
    return columns


def means(runs: Sequence[Columns]) -> Columns:
    """Return the means over runs of the columns that all runs have."""
    shared = [column for column in runs[0] if all(column in run for run in runs)]
    return {column: np.mean([run[column] for run in runs], axis=0) for column in shared}
