"""How good a domain classifier is: confusion matrix, accuracy, precision, recall and F1."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np


def confusion_matrix(labels: np.ndarray, predictions: np.ndarray, num_domains: int) -> np.ndarray:
    """Count sentences by true domain (rows) and predicted domain (columns), D×D."""
    matrix = np.zeros((num_domains, num_domains), dtype=np.int64)
    np.add.at(matrix, (labels, predictions), 1)
    return matrix


def summarise(matrix: np.ndarray, domains: Sequence[str]) -> dict[str, Any]:
    """Turn a confusion matrix into what ``teacher.json`` records.

    ``micro_f1`` is the papers' measure; with one label a sentence it is the accuracy.
    """
    hits = np.diag(matrix).astype(float)
    precision = _ratio(hits, matrix.sum(axis=0))
    recall = _ratio(hits, matrix.sum(axis=1))
    f1 = _ratio(2 * precision * recall, precision + recall)
    per_domain = {
        name: {
            "sentences": int(matrix[row].sum()),
            "precision": round(float(precision[row]), 4),
            "recall": round(float(recall[row]), 4),
            "f1": round(float(f1[row]), 4),
        }
        for row, name in enumerate(domains)
    }
    accuracy = round(float(hits.sum() / max(matrix.sum(), 1)), 4)
    return {"micro_f1": accuracy, "per_domain": per_domain, "confusion": matrix.tolist()}


def summary_line(metrics: Mapping[str, Any]) -> str:
    """The micro average of every set, in one line."""
    return "F1 " + ", ".join(f"{each['micro_f1']:.3f} on {split}" for split, each in metrics.items())


def _ratio(numerator: np.ndarray, denominator: np.ndarray) -> np.ndarray:
    """Divide, with 0 / 0 = 0."""
    zeros = np.zeros_like(numerator, dtype=float)
    return np.divide(numerator, denominator, out=zeros, where=denominator != 0)
