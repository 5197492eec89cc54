"""Metrics of classification tasks: accuracy, F1, Matthews' and other correlations, as in GLUE.

Houlsby et al. (2019, Table 1) take accuracy for most tasks, F1 for MRPC and QQP, Matthews' correlation for CoLA and
Spearman's for STS-B. All are at most 1.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

_POSITIVE = 1  # of two labels, the one that F1 is about, as in GLUE


def measure(metrics: Sequence[str], logits: np.ndarray, targets: np.ndarray, labels: Sequence[str]) -> dict[str, float]:
    """Compare predictions with targets; returns each metric's value.

    A row that is not finite counts as wrong. Correlations of constant predictions or targets are 0.

    Args:
        metrics: of :data:`~fairseq_ext.classifiers.task_split.METRICS`, such as the kind of task has.
        logits: of the K labels, or the one predicted number.
        targets: numbers of the true labels, or true numbers.
        labels: their names; none for a regression.

    Shape:
        logits: N×K, or N×1; targets: N
    """
    compute = _of_labels(logits, targets, len(labels)) if labels else _of_numbers(logits[:, 0], targets)
    return {name: float(compute[name]()) for name in metrics}


def predicted_labels(logits: np.ndarray) -> np.ndarray:
    """The number of each row's highest logit; −1 where the row is not finite.

    Shape:
        logits: N×K; result: N
    """
    return np.where(np.isfinite(logits).all(axis=1), logits.argmax(axis=1), -1)


def majority_share(targets: np.ndarray) -> float:
    """The accuracy of the majority label."""
    return float(np.unique(targets, return_counts=True)[1].max() / len(targets))


def _of_labels(logits: np.ndarray, targets: np.ndarray, num_labels: int) -> dict[str, Callable[[], float]]:
    from sklearn.metrics import f1_score, matthews_corrcoef

    predictions = predicted_labels(logits)
    # Labels that neither occur nor are predicted are part of the average all the same.
    averaged = [_POSITIVE] if num_labels == 2 else list(range(num_labels))
    return {
        "accuracy": lambda: np.mean(predictions == targets),
        "f1": lambda: f1_score(targets, predictions, labels=averaged, average="macro", zero_division=0),
        # 0 for constant predictions, by scikit-learn's own convention.
        "matthews": lambda: matthews_corrcoef(targets, predictions),
    }


def _of_numbers(predictions: np.ndarray, targets: np.ndarray) -> dict[str, Callable[[], float]]:
    from scipy.stats import pearsonr, spearmanr

    is_defined = np.isfinite(predictions).all() and np.ptp(predictions) > 0 and np.ptp(targets) > 0
    if not is_defined:
        return {"pearson": lambda: 0.0, "spearman": lambda: 0.0}
    # In double precision, or what is nearly constant would be lost in the differences from the mean.
    pair = predictions.astype(np.float64), targets.astype(np.float64)
    return {"pearson": lambda: pearsonr(*pair).statistic, "spearman": lambda: spearmanr(*pair).statistic}
