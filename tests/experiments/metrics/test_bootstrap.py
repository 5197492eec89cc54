import numpy as np
import pytest

from fairseq_ext.experiments.metrics import bootstrap
from fairseq_ext.experiments.metrics.bootstrap import MIN_SENTENCES, average, p_value, resampled_sums


def test_sums_are_those_of_draws_with_replacement(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bootstrap, "MIN_SENTENCES", 1)
    # With a column of powers of ten, a sum spells out how often each of the four sentences was drawn.
    counts = np.array([[1], [10], [100], [1000]])
    sums = resampled_sums(counts, 2000, [1])[:, 0]
    assert sums[0] == 1111
    times = np.array([[int(digit) for digit in f"{int(number):04d}"] for number in sums[1:]])
    assert (times.sum(axis=1) == 4).all()
    assert times.max() > 1
    # Each sentence is drawn once on average; the standard error is 0.02.
    assert times.mean(axis=0) == pytest.approx(np.ones(4), abs=0.08)


def test_p_is_twice_the_share_of_the_losing_side() -> None:
    differences = np.array([1.0] * 95 + [-1.0] * 4)
    assert p_value(differences) == p_value(-differences) == pytest.approx(2 * 5 / 100)
    assert p_value(np.zeros(999)) == p_value(np.full(999, -1e-14)) == 1
    assert p_value(np.ones(999)) == pytest.approx(0.002)


def test_small_test_sets_are_not_resampled() -> None:
    # Of one sentence, every draw would be as good as the sentence.
    counts = np.ones((MIN_SENTENCES, 2))
    enough, few = resampled_sums(counts, 99, [1]), resampled_sums(counts[1:], 99, [1])
    assert enough.tolist() == [[30.0, 30.0]] * 100
    assert few.tolist() == [[29.0, 29.0]]
    assert p_value(few[1:, 0]) is None
    assert average([enough[:, 0], few[:, 0]], [1, 3]) == pytest.approx([29.25])
