from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from fairseq_ext.inputs.errors import InputError
from fairseq_ext.reranking.nbest import Hypothesis, NBest
from fairseq_ext.reranking.tuning import ascend, bleu_of_choice, feature_spread, first_weights, tune_weights
from tests.reranking.made_up import make_list


def test_system_orders_its_list_by_its_score() -> None:
    listed = [[Hypothesis("a", {"lm": -9.0, "score": 2.0}), Hypothesis("b", {"lm": 0.0, "score": 1.0})]]
    nbest = NBest.of(listed)
    assert first_weights(nbest).tolist() == [0, 1]
    assert nbest.best(first_weights(nbest)).tolist() == [0]
    with pytest.raises(InputError, match="neither 'score' nor 'model'"):
        first_weights(replace(nbest, names=["lm", "other"]))


def test_of_equal_scores_the_first_is_best() -> None:
    nbest = NBest.of([[Hypothesis(text, {"f": value}) for text, value in (("a", 1.0), ("b", 2.0), ("c", 2.0))]])
    assert nbest.best(np.array([1.0])).tolist() == [1]
    assert nbest.best(np.array([0.0])).tolist() == [0]


@pytest.mark.parametrize("seed", range(8))
def test_an_ascent_ends_where_no_single_weight_gains(seed: int) -> None:
    nbest, _, counts = make_list(seed, sentences=20)
    start = np.array([1.0, 0.0, 0.0])
    weights, score = ascend(nbest, counts, start)
    assert score == bleu_of_choice(counts, nbest.best(weights)) >= bleu_of_choice(counts, nbest.best(start))
    for index in range(3):
        # No value at which two hypotheses are equal: there, their order in the list would choose.
        for value in np.linspace(-10.01, 10.02, 81):
            changed = np.where(np.arange(3) == index, value, weights)
            assert bleu_of_choice(counts, nbest.best(changed)) <= score + 1e-9


def test_a_feature_that_knows_the_best_is_found() -> None:
    nbest, _, counts = make_list(seed=4, sentences=30)
    matches = counts[..., 2:6].sum(axis=2)[nbest.is_hypothesis].astype(float)
    told = nbest.with_features({"told": 1e-4 * matches})  # of another size than the others
    start = np.array([1.0, 0.0, 0.0, 0.0])
    weights = tune_weights(told, counts, [start], restarts=3, seed=1)
    found = bleu_of_choice(counts, told.best(weights))
    assert found >= bleu_of_choice(counts, told.best(np.array([0.0, 0.0, 0.0, 1.0])))
    assert found > bleu_of_choice(counts, told.best(start)) + 5
    assert np.abs(weights * feature_spread(told)).sum() == pytest.approx(1)


def test_tuning_is_the_same_again_and_restarts_never_harm() -> None:
    nbest, _, counts = make_list(seed=5, sentences=25)
    start = [np.array([1.0, 0.0, 0.0])]
    few, many, again = (tune_weights(nbest, counts, start, restarts=n, seed=3) for n in (0, 12, 12))
    assert many.tobytes() == again.tobytes()
    assert bleu_of_choice(counts, nbest.best(many)) >= bleu_of_choice(counts, nbest.best(few))


def test_spread_is_that_within_sentences() -> None:
    listed = [[Hypothesis("a", {"f": 100.0, "g": 5.0}), Hypothesis("b", {"f": 102.0, "g": 5.0})],
              [Hypothesis("c", {"f": 0.0, "g": -5.0})]]  # fmt: skip
    assert feature_spread(NBest.of(listed)).tolist() == pytest.approx([np.sqrt(0.5), 1.0])
