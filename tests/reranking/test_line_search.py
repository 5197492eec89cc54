from __future__ import annotations

import numpy as np
import pytest

from fairseq_ext.reranking.line_search import best_weight, upper_envelopes
from fairseq_ext.reranking.tuning import bleu_of_choice
from tests.reranking.made_up import make_list


def test_envelope_of_three_lines() -> None:
    # −γ, 1 and γ − 1 cross at −1 and 2; 0.5 is never on top.
    changes = upper_envelopes(
        np.array([[0.0, 0.5, 1.0, -1.0]]), np.array([[-1.0, 0.0, 0.0, 1.0]]), np.ones((1, 4), dtype=bool)
    )
    assert changes.first.tolist() == [0]
    assert changes.thresholds.tolist() == [-1, 2]
    assert changes.before.tolist() == [0, 2]
    assert changes.after.tolist() == [2, 3]


def test_lines_through_one_point_change_once() -> None:
    lines = np.zeros((1, 3)), np.array([[0.0, -1.0, 1.0]])
    changes = upper_envelopes(*lines, np.ones((1, 3), dtype=bool))
    assert (changes.thresholds.tolist(), changes.before.tolist(), changes.after.tolist()) == ([0], [1], [2])


def test_of_equal_lines_the_first_counts_and_what_is_no_line_does_not() -> None:
    intercepts, slopes = np.array([[1.0, 1.0, 9.0], [0.0, 2.0, 2.0]]), np.zeros((2, 3))
    changes = upper_envelopes(intercepts, slopes, np.array([[True, True, False], [True, True, True]]))
    assert changes.first.tolist() == [0, 1]
    assert len(changes.thresholds) == 0


@pytest.mark.parametrize("seed", range(5))
def test_envelope_says_which_hypothesis_is_best_everywhere(seed: int) -> None:
    nbest, _, _ = make_list(seed)
    intercepts, slopes = nbest.features[..., 0], nbest.features[..., 1]
    changes = upper_envelopes(intercepts, slopes, nbest.is_hypothesis)
    thresholds = np.unique(changes.thresholds)
    for gamma in [thresholds[0] - 1, *(thresholds[1:] + thresholds[:-1]) / 2, thresholds[-1] + 1]:
        choice = changes.first.copy()
        passed = np.flatnonzero(changes.thresholds < gamma)
        for number in passed[np.argsort(changes.thresholds[passed], kind="stable")]:
            assert choice[changes.sentences[number]] == changes.before[number]
            choice[changes.sentences[number]] = changes.after[number]
        assert choice.tolist() == nbest.best(np.array([1.0, gamma, 0.0])).tolist()


@pytest.mark.parametrize("seed", range(10))
def test_no_value_of_a_fine_grid_is_better(seed: int) -> None:
    nbest, _, counts = make_list(seed)
    weights = np.random.default_rng(seed).normal(size=3)
    for index in range(3):

        def bleu(value: float, at: int = index) -> float:
            changed = np.where(np.arange(3) == at, value, weights)
            return bleu_of_choice(counts, nbest.best(changed))

        found = bleu(best_weight(nbest, counts, weights, index))
        grid = [bleu(value) for value in np.linspace(-30.01, 30.02, 241)]
        assert found >= max(grid) - 1e-9
        assert found > min(grid)


def test_a_feature_that_says_nothing_gets_no_weight() -> None:
    nbest, _, counts = make_list(seed=3)
    same = nbest.with_features({"constant": np.full(len(nbest.all_texts()), 7.0)})
    assert best_weight(same, counts, np.array([1.0, 0.5, 0.25, 2.0]), 3) == 0
