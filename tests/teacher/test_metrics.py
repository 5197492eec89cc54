"""Classifier metrics against numbers worked out by hand."""

import numpy as np

from fairseq_ext.teacher.metrics import confusion_matrix, summarise, summary_line

LABELS = np.array([0, 0, 0, 0, 1, 1, 2])
PREDICTIONS = np.array([0, 0, 0, 1, 1, 0, 1])


def test_matrix_has_true_domains_as_rows() -> None:
    matrix = confusion_matrix(LABELS, PREDICTIONS, 3)
    assert matrix.tolist() == [[3, 1, 0], [1, 1, 0], [0, 1, 0]]


def test_summary_by_hand() -> None:
    summary = summarise(confusion_matrix(LABELS, PREDICTIONS, 3), ["a", "b", "c"])
    assert summary["micro_f1"] == round(4 / 7, 4)
    assert summary["per_domain"]["a"] == {"sentences": 4, "precision": 0.75, "recall": 0.75, "f1": 0.75}
    assert summary["per_domain"]["b"] == {"sentences": 2, "precision": 0.3333, "recall": 0.5, "f1": 0.4}
    # Never predicted: 0 / 0 counts as 0.
    assert summary["per_domain"]["c"] == {"sentences": 1, "precision": 0.0, "recall": 0.0, "f1": 0.0}
    assert summary_line({"valid": summary, "test": summary}) == "F1 0.571 on valid, 0.571 on test"
