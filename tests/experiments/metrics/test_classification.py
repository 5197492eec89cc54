"""Metrics against values worked out by hand, and where they are undefined."""

import numpy as np
import pytest

from fairseq_ext.experiments.metrics.classification import majority_share, measure, predicted_labels

CLASSIFICATION = ["accuracy", "f1", "matthews"]


def test_metrics_of_two_labels() -> None:
    # 3 true positives, 1 false, 2 missed, 4 true negatives.
    targets = np.array([1, 1, 1, 1, 1, 0, 0, 0, 0, 0])
    found = measure(CLASSIFICATION, np.eye(2)[[1, 1, 1, 0, 0, 1, 0, 0, 0, 0]], targets, ["neg", "pos"])
    matthews = (3 * 4 - 1 * 2) / (4 * 5 * 5 * 6) ** 0.5
    assert found == pytest.approx({"accuracy": 0.7, "f1": 2 * 3 / (2 * 3 + 1 + 2), "matthews": matthews})


def test_f1_of_more_labels_averages_over_all_of_them() -> None:
    # By label: 2/3, 1, 0; the third is never predicted, the fourth does not occur.
    found = measure(["f1"], np.eye(4)[[0, 0, 1, 0]], np.array([0, 0, 1, 2]), ["a", "b", "c", "d"])
    assert found["f1"] == pytest.approx((2 * 2 / (2 * 2 + 1) + 1 + 0 + 0) / 4)


def test_constant_predictions_have_the_majoritys_accuracy_and_what_is_not_finite_is_wrong() -> None:
    targets = np.array([0, 1, 0, 0])
    logits = np.eye(2)[[0, 0, 0, 0]]
    assert measure(CLASSIFICATION, logits, targets, ["neg", "pos"]) == {"accuracy": 0.75, "f1": 0.0, "matthews": 0.0}
    assert majority_share(targets) == 0.75
    logits[0, 0] = np.nan
    assert predicted_labels(logits).tolist() == [-1, 0, 0, 0]
    assert measure(["accuracy"], logits, targets, ["neg", "pos"]) == {"accuracy": 0.5}


def test_correlations() -> None:
    predictions = np.array([[1.0], [2.0], [4.0], [8.0]], dtype=np.float32)
    found = measure(["pearson", "spearman"], predictions, np.array([0.0, 1.0, 2.0, 3.0]), [])
    # Deviations from the mean: −2.75, −1.75, 0.25, 4.25 and −1.5, −0.5, 0.5, 1.5.
    assert found == pytest.approx({"pearson": 11.5 / (28.75 * 5) ** 0.5, "spearman": 1})


@pytest.mark.filterwarnings("error")
def test_undefined_correlations_are_zero() -> None:
    for predictions, targets in (([2, 2, 2], [0, 1, 2]), ([0, 1, 2], [1, 1, 1]), ([0, np.inf, 2], [0, 1, 2])):
        found = measure(["pearson", "spearman"], np.array(predictions, float)[:, None], np.array(targets, float), [])
        assert found == {"pearson": 0.0, "spearman": 0.0}
