"""Metrics against values worked out by hand, and where they are undefined."""

from __future__ import annotations

import numpy as np
import pytest

from fairseq_ext.inputs.errors import InputError
from fairseq_ext.metrics.classification import (
    majority_share,
    measure,
    predicted_labels,
)

CLASSIFICATION = ["accuracy", "f1", "matthews"]


def logits_for(predictions: list[int], num_labels: int) -> np.ndarray:
    return np.eye(num_labels, dtype=np.float32)[predictions]


def test_two_labels() -> None:
    # 3 true positives, 1 false, 2 missed, 4 true negatives.
    targets = np.array([1, 1, 1, 1, 1, 0, 0, 0, 0, 0])
    predictions = [1, 1, 1, 0, 0, 1, 0, 0, 0, 0]
    scores = measure(CLASSIFICATION, logits_for(predictions, 2), targets, ["neg", "pos"])
    assert scores.values["accuracy"] == pytest.approx(0.7)
    assert scores.values["f1"] == pytest.approx(2 * 3 / (2 * 3 + 1 + 2))
    assert scores.values["matthews"] == pytest.approx((3 * 4 - 1 * 2) / (4 * 5 * 5 * 6) ** 0.5)
    assert not scores.remarks


def test_f1_of_more_labels_averages_over_all_of_them() -> None:
    # By label: 2/3, 1, 0; the third is never predicted, the fourth does not occur.
    targets = np.array([0, 0, 1, 2])
    scores = measure(["f1"], logits_for([0, 0, 1, 0], 4), targets, ["a", "b", "c", "d"])
    assert scores.values["f1"] == pytest.approx((2 * 2 / (2 * 2 + 1) + 1 + 0 + 0) / 4)


def test_constant_predictions_are_remarked() -> None:
    targets = np.array([0, 1, 0, 0])
    scores = measure(CLASSIFICATION, logits_for([0, 0, 0, 0], 2), targets, ["neg", "pos"])
    assert scores.values == {"accuracy": 0.75, "f1": 0.0, "matthews": 0.0}
    assert scores.remarks == ["every prediction is 'neg'"]
    assert majority_share(targets) == 0.75


def test_what_is_not_finite_is_wrong() -> None:
    logits = logits_for([0, 1, 1], 2)
    logits[0] = np.nan
    assert predicted_labels(logits).tolist() == [-1, 1, 1]
    scores = measure(CLASSIFICATION, logits, np.array([0, 1, 1]), ["neg", "pos"])
    assert scores.values["accuracy"] == pytest.approx(2 / 3)
    assert scores.values["f1"] == 1
    assert scores.remarks == ["1 of 3 predictions are not finite"]


def test_correlations() -> None:
    predictions = np.array([[1.0], [2.0], [4.0], [8.0]], dtype=np.float32)
    scores = measure(["pearson", "spearman"], predictions, np.array([0.0, 1.0, 2.0, 3.0]), [])
    assert scores.values["spearman"] == pytest.approx(1)
    # Deviations from the mean: −2.75, −1.75, 0.25, 4.25 and −1.5, −0.5, 0.5, 1.5.
    assert scores.values["pearson"] == pytest.approx(11.5 / (28.75 * 5) ** 0.5)


@pytest.mark.parametrize(
    ("predictions", "targets", "reason"),
    [
        ([2.0, 2.0, 2.0], [0.0, 1.0, 2.0], "every prediction is the same"),
        ([0.0, 1.0, 2.0], [1.0, 1.0, 1.0], "every target is the same"),
        ([0.0, np.inf, 2.0], [0.0, 1.0, 2.0], "1 of 3 predictions are not finite"),
    ],
)
@pytest.mark.filterwarnings("error")
def test_undefined_correlations_are_zero_and_said(predictions: list, targets: list, reason: str) -> None:
    scores = measure(["pearson", "spearman"], np.array(predictions)[:, None], np.array(targets), [])
    assert scores.values == {"pearson": 0.0, "spearman": 0.0}
    assert scores.remarks == [f"{reason}: no correlation is defined, it is set to 0"]


def test_an_empty_set_is_refused() -> None:
    with pytest.raises(InputError):
        measure(["accuracy"], np.zeros((0, 2)), np.zeros(0, dtype=int), ["a", "b"])
