"""Metrics of classification tasks: accuracy, F1, Matthews' and other correlations, as in GLUE.

Houlsby et al. (2019, Table 1) take accuracy for most tasks, F1 for MRPC and QQP, Matthews' correlation for CoLA and
Spearman's for STS-B. All are at most 1.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from fairseq_ext.inputs.errors import InputError

_POSITIVE = 1  # of two labels, the one that F1 is about, as in GLUE


@dataclass(frozen=True)
class Scores:
    """Metrics of a set of predictions.

    Attributes:
        values: by metric.
        remarks: warnings, such as constant predictions.
    """

    values: Mapping[str, float]
    remarks: Sequence[str] = field(default_factory=list)


def measure(metrics: Sequence[str], logits: np.ndarray, targets: np.ndarray, labels: Sequence[str]) -> Scores:
    """Compare predictions with targets.

    A row that is not finite counts as wrong. Undefined correlations, of constant predictions or targets, are 0, with a
    remark.

    Args:
        metrics: of :data:`~fairseq_ext.classifiers.task_split.METRICS`, such as the kind of task has.
        logits: of the K labels, or the one predicted number.
        targets: numbers of the true labels, or true numbers.
        labels: their names; none for a regression.

    Shape:
        logits: N×K, or N×1; targets: N
    """
    if not len(targets):
        raise InputError("the task's set is empty; give at least one example")
    if labels:
        return _measure_labels(metrics, logits, targets, labels)
    return _measure_numbers(metrics, logits[:, 0], targets)


def predicted_labels(logits: np.ndarray) -> np.ndarray:
    """The number of each row's highest logit; −1 where the row is not finite.

    Shape:
        logits: N×K; result: N
    """
    return np.where(np.isfinite(logits).all(axis=1), logits.argmax(axis=1), -1)


def majority_share(targets: np.ndarray) -> float:
    """The accuracy of the majority label."""
    return float(np.unique(targets, return_counts=True)[1].max() / len(targets))


def _measure_labels(metrics: Sequence[str], logits: np.ndarray, targets: np.ndarray, labels: Sequence[str]) -> Scores:
    from sklearn.metrics import f1_score, matthews_corrcoef

    predictions = predicted_labels(logits)
    # Labels that neither occur nor are predicted are part of the average all the same.
    averaged = [_POSITIVE] if len(labels) == 2 else list(range(len(labels)))
    compute: dict[str, Callable[[], float]] = {
        "accuracy": lambda: np.mean(predictions == targets),
        "f1": lambda: f1_score(targets, predictions, labels=averaged, average="macro", zero_division=0),
        # 0 for constant predictions, by scikit-learn's own convention.
        "matthews": lambda: matthews_corrcoef(targets, predictions),
    }
    remarks = []
    if (predictions < 0).any():
        remarks.append(f"{(predictions < 0).sum():,} of {len(predictions):,} predictions are not finite")
    elif (predictions == predictions[0]).all():
        remarks.append(f"every prediction is {labels[predictions[0]]!r}")
    return Scores({name: float(compute[name]()) for name in metrics}, remarks)


def _measure_numbers(metrics: Sequence[str], predictions: np.ndarray, targets: np.ndarray) -> Scores:
    from scipy.stats import pearsonr, spearmanr

    def undefined(reason: str) -> Scores:
        return Scores(dict.fromkeys(metrics, 0.0), [f"{reason}: no correlation is defined, it is set to 0"])

    if not np.isfinite(predictions).all():
        return undefined(f"{(~np.isfinite(predictions)).sum():,} of {len(predictions):,} predictions are not finite")
    for what, numbers in (("prediction", predictions), ("target", targets)):
        if (numbers == numbers[0]).all():
            return undefined(f"every {what} is the same")
    compute = {"pearson": pearsonr, "spearman": spearmanr}
    # In double precision, or what is nearly constant would be lost in the differences from the mean.
    pair = predictions.astype(np.float64), targets.astype(np.float64)
    return Scores({name: float(compute[name](*pair).statistic) for name in metrics})
