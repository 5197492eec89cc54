"""Metrics of classification and regression tasks as in GLUE: accuracy, F1 and correlation coefficients.

Houlsby et al. (2019, Table 1) use accuracy for most tasks, F1 for MRPC and QQP, Matthews' correlation for CoLA and
Spearman's for STS-B. The maximum of all metrics is 1.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

_POSITIVE = 1  # positive class of F1 with two labels, as in GLUE


def measure(metrics: Sequence[str], logits: np.ndarray, targets: np.ndarray, labels: Sequence[str]) -> dict[str, float]:
    """Compute metrics of predictions. Return their values by name.

    Rows with non-finite logits count as wrong. Correlations of constant predictions or targets are 0.

    Args:
        metrics: names of metrics in :data:`~fairseq_ext.classifiers.task_split.METRICS` for the kind of task.
        logits: logits of the K labels, or predicted numbers for regression.
        targets: indices of the true labels, or true numbers for regression.
        labels: names of the labels; empty for regression.

    Shape:
        logits: N×K, or N×1; targets: N
    """
    compute = _of_labels(logits, targets, len(labels)) if labels else _of_numbers(logits[:, 0], targets)
    return {name: float(compute[name]()) for name in metrics}


def predicted_labels(logits: np.ndarray) -> np.ndarray:
    """Return the index of the highest logit in each row; −1 for rows with non-finite logits.

    Shape:
        logits: N×K; result: N
    """
    return np.where(np.isfinite(logits).all(axis=1), logits.argmax(axis=1), -1)


def majority_share(targets: np.ndarray) -> float:
    """Return the accuracy of always predicting the most frequent label."""
    return float(np.unique(targets, return_counts=True)[1].max() / len(targets))


def _of_labels(logits: np.ndarray, targets: np.ndarray, num_labels: int) -> dict[str, Callable[[], float]]:
    from sklearn.metrics import f1_score, matthews_corrcoef

    predictions = predicted_labels(logits)
    # The average includes labels that neither occur nor are predicted.
    averaged = [_POSITIVE] if num_labels == 2 else list(range(num_labels))
    return {
        "accuracy": lambda: np.mean(predictions == targets),
        "f1": lambda: f1_score(targets, predictions, labels=averaged, average="macro", zero_division=0),
        # scikit-learn returns 0 for constant predictions.
        "matthews": lambda: matthews_corrcoef(targets, predictions),
    }


def _of_numbers(predictions: np.ndarray, targets: np.ndarray) -> dict[str, Callable[[], float]]:
    from scipy.stats import pearsonr, spearmanr

    is_defined = np.isfinite(predictions).all() and np.ptp(predictions) > 0 and np.ptp(targets) > 0
    if not is_defined:
        return {"pearson": lambda: 0.0, "spearman": lambda: 0.0}
    # Double precision, because differences from the mean may be tiny for nearly constant predictions.
    pair = predictions.astype(np.float64), targets.astype(np.float64)
    return {"pearson": lambda: pearsonr(*pair).statistic, "spearman": lambda: spearmanr(*pair).statistic}
