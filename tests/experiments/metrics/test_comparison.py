"""Systems against baselines: over runs as Welch's t-test has it, over sentences as the bootstrap has it."""

from functools import partial

import numpy as np
import pytest
from scipy.stats import ttest_ind

from fairseq_ext.experiments.metrics.comparison import compare_resamples, compare_runs
from fairseq_ext.experiments.metrics.records import Record, Records

RUNS = {"mix": (30.1, 30.4, 29.9), "gad": (31.2, 31.9, 31.4), "one": (33,), "flat": (30, 30), "even": (31, 31)}
RECORDS = Records(
    [
        Record(system=name, run=f"{name}@{seed}", domain="law", metric="chrF", value=value, n=500)
        for name, values in RUNS.items()
        for seed, value in enumerate(values)
    ]
)
compared = partial(compare_runs, RECORDS, metric="chrF", domain="law")


def test_runs_are_compared_as_by_welch() -> None:
    found = compared("gad", "mix")
    test = ttest_ind(RUNS["gad"], RUNS["mix"], equal_var=False)
    interval = test.confidence_interval(0.95)
    assert (found.p, found.low, found.high) == pytest.approx((test.pvalue, interval.low, interval.high))
    assert found.difference == pytest.approx(np.mean(RUNS["gad"]) - np.mean(RUNS["mix"]))
    assert found.n == 500
    one = compared("one", "mix")
    assert (one.difference, one.low, one.high, one.p) == (pytest.approx(33 - np.mean(RUNS["mix"])), None, None, None)
    assert compared("one", "none") is None
    # Equal runs say nothing about the variance.
    for other in ("flat", "even"):
        same = compared("flat", other)
        assert (same.low, same.high, same.p) == (None, None, None)


def test_resamples_give_the_interval_and_p() -> None:
    resamples = np.linspace(-0.5, 1.5, 1001)
    found = compare_resamples("gad", "mix", "BLEU", "all", np.concatenate([[0.5], resamples]), 2000)
    assert (found.difference, found.low, found.high) == pytest.approx((0.5, -0.45, 1.45))
    assert found.p == pytest.approx(0.5, abs=0.01)  # twice the share below zero
    few = compare_resamples("gad", "mix", "BLEU", "all", np.array([0.5]), 12)
    assert (few.low, few.p, few.n) == (None, None, 12)
