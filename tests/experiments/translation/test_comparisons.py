"""Differences, their intervals and p, computed again in the plainest way."""

from __future__ import annotations

import numpy as np
import pytest
import sacrebleu
from fairseq_ext.experiments.translation.comparisons import compare
from fairseq_ext.experiments.translation.scores import count_text, score_columns, summarise

from fairseq_ext.metrics.bootstrap import p_value
from fairseq_ext.metrics.corpus_metrics import text_metrics
from tests.experiments.translation.test_scores import synthetic

RESAMPLES = 200


def drawn(scores: list[float], own: float) -> np.ndarray:
    return np.array([own, *scores])


def test_interval_and_p_are_those_of_the_differences() -> None:
    generator = np.random.default_rng(1)
    base, first, second = (generator.normal(mean, 1, 100) for mean in (40, 41, 42))
    by_output = {
        "base": [{"AVG": drawn(list(base), 40)}],
        "ad": [{"AVG": drawn(list(first), 41)}, {"AVG": drawn(list(second), 42.5)}],
    }
    [(name, columns)] = compare(by_output, "base", "chrF").items()
    assert name == "ad"
    differences = sorted((a + b) / 2 - c for a, b, c in zip(first, second, base, strict=True))
    assert columns["AVG"]["difference"] == 1.75
    # Of 100 values, those at 2.475 and 96.525 from the lowest.
    low = differences[2] + 0.475 * (differences[3] - differences[2])
    high = differences[96] + 0.525 * (differences[97] - differences[96])
    assert columns["AVG"]["low"] == pytest.approx(low, abs=1e-4)
    assert columns["AVG"]["high"] == pytest.approx(high, abs=1e-4)
    below = sum(difference <= 0 for difference in differences)
    assert columns["AVG"]["p"] == pytest.approx(2 * (below + 1) / 101, abs=1e-4)


@pytest.mark.parametrize("metric", ["chrF", "BLEU", "TER"])
def test_real_metrics_agree_with_the_marks_of_the_tables_and_with_sacrebleu(metric: str) -> None:
    tests, base, other = synthetic(12, 3)
    counts = count_text(text_metrics([metric]), [base, other], tests)[metric]
    columns = score_columns(counts, text_metrics([metric])[metric], tests, RESAMPLES)
    found = compare({"base": columns[:1], "other": columns[1:]}, "base", metric)["other"]
    figures = summarise(columns[1:], columns[:1])
    assert {name: each["p"] for name, each in found.items()} == {name: each["p"] for name, each in figures.items()}
    score = {"chrF": sacrebleu.corpus_chrf, "BLEU": sacrebleu.corpus_bleu, "TER": sacrebleu.corpus_ter}[metric]
    law = [score(lines["law"], [tests.references["law"]]).score for lines in (base, other)]
    gain = law[0] - law[1] if metric == "TER" else law[1] - law[0]
    assert found["law"]["difference"] == pytest.approx(gain, abs=1e-4)
    assert gain > 0  # more lines are better than worse
    assert found["law"]["low"] < found["law"]["difference"] < found["law"]["high"]


def test_the_other_way_round_all_signs_turn() -> None:
    tests, base, other = synthetic(20, 5)
    counts = count_text(text_metrics(["chrF"]), [base, other], tests)["chrF"]
    first, second = ([run] for run in score_columns(counts, text_metrics(["chrF"])["chrF"], tests, RESAMPLES))
    there = compare({"a": first, "b": second}, "a", "chrF")["b"]["AVG"]
    back = compare({"a": first, "b": second}, "b", "chrF")["a"]["AVG"]
    assert (back["difference"], back["low"], back["high"]) == (-there["difference"], -there["high"], -there["low"])
    assert back["p"] == there["p"]


@pytest.mark.parametrize(("metric", "sign"), [("chrF", 1), ("TER", -1)])
def test_above_zero_is_better_also_where_lower_is_better(metric: str, sign: int) -> None:
    higher = {"a": [{"x": np.full(11, 50.0)}], "b": [{"x": np.full(11, 53.0)}]}
    found = compare(higher, "a", metric)["b"]["x"]
    assert [found[part] for part in ("difference", "low", "high")] == [3.0 * sign] * 3
    assert found["p"] == p_value(np.full(10, 3.0)) == pytest.approx(2 / 11, abs=1e-4)


def test_few_sentences_are_not_tested_and_missing_columns_not_compared() -> None:
    by_output = {
        "a": [{"x": np.array([50.0]), "y": np.array([1.0])}, {"x": np.array([52.0])}],
        "b": [{"x": np.array([53.0]), "z": np.array([1.0])}],
        "c": [{"z": np.array([1.0])}],
    }
    assert compare(by_output, "a", "chrF") == {
        "b": {"x": {"difference": 2.0, "low": None, "high": None, "p": None}},
        "c": {},
    }
