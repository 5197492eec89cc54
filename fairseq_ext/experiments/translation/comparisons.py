"""Outputs compared with several baselines: the difference of each metric on each set, its interval, and p."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from fairseq_ext.experiments.translation.control import continued_systems
from fairseq_ext.experiments.translation.outputs import Output
from fairseq_ext.experiments.translation.systems import TranslationSystem
from fairseq_ext.metrics.bootstrap import p_value
from fairseq_ext.metrics.corpus_metrics import METRICS

UNIFORM = "even"  # of domain-source: the same weight for every adapter
_INTERVAL = (2.5, 97.5)  # percentiles of the resamples

Columns = Mapping[str, np.ndarray]  # by column the score, then that of each of R resamples: 1+R
Comparison = dict[str, float | None]


def uniform_outputs(outputs: Mapping[str, Output]) -> list[str]:
    """The outputs in which every adapter has the same weight."""
    return [name for name, output in outputs.items() if output.domain_source == UNIFORM]


def default_baselines(outputs: Mapping[str, Output], systems: Mapping[str, TranslationSystem]) -> list[str]:
    """What outputs are compared with where the file does not say: the continued base model, and uniform weights."""
    continued = continued_systems(systems)
    controls = [name for name, output in outputs.items() if output.system.name in continued]
    return [*controls, *uniform_outputs(outputs)]


def compare(by_output: Mapping[str, Sequence[Columns]], baseline: str, metric: str) -> dict[str, dict[str, Comparison]]:
    """Compare all outputs with one.

    What is compared are means over runs. The interval and p are about other sentences of the same kind, translated by
    these very runs; how much trainings differ is said by the standard deviation over runs.

    Args:
        by_output: of every output, the columns of each of its runs.
        baseline: the output to compare with.
        metric: name of the metric.

    Returns:
        by output and column: ``difference`` (above zero: better than the baseline), ``low`` and ``high`` ends of its
        95 % interval, and ``p``; these three are None where sentences are too few.
    """
    means = {name: _means(runs) for name, runs in by_output.items()}
    base = means.pop(baseline)
    return {
        name: {column: _compare(columns[column], base[column], metric) for column in columns if column in base}
        for name, columns in means.items()
    }


def _means(runs: Sequence[Columns]) -> dict[str, np.ndarray]:
    shared = [column for column in runs[0] if all(column in run for run in runs)]
    return {column: np.mean([run[column] for run in runs], axis=0) for column in shared}


def _compare(scores: np.ndarray, baseline: np.ndarray, metric: str) -> Comparison:
    gains = np.asarray(METRICS[metric].gain(scores, baseline))  # type: ignore[arg-type]
    if len(gains) == 1:
        return {"difference": round(float(gains[0]), 4), "low": None, "high": None, "p": None}
    low, high = np.percentile(gains[1:], _INTERVAL)
    difference, low, high = (round(float(value), 4) for value in (gains[0], low, high))
    return {"difference": difference, "low": low, "high": high, "p": p_value(gains[1:])}
