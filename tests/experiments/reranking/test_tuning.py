"""Line searches miss no value, and ascents end where no weight gains."""

import numpy as np
import pytest

from fairseq_ext.experiments.reranking.evaluation import bleu_of_choice
from fairseq_ext.experiments.reranking.nbest import NBest
from fairseq_ext.experiments.reranking.tuning import (
    ascend,
    best_weight,
    feature_spread,
    upper_envelopes,
)
from tests.experiments.reranking.made_up import make_list


def test_envelopes_by_hand() -> None:
    # −γ, 1 and γ − 1 cross at −1 and 2, 0.5 is never on top; three lines through one point; equal ones and no line.
    intercepts = np.array([[0.0, 0.5, 1.0, -1.0], [0.0, 0.0, 0.0, 0.0], [1.0, 1.0, 9.0, 0.0]])
    slopes = np.array([[-1.0, 0.0, 0.0, 1.0], [0.0, -1.0, 1.0, 0.0], [0.0, 0.0, 0.0, 0.0]])
    is_line = np.array([[True] * 4, [True] * 4, [True, True, False, True]])
    first, changes = upper_envelopes(intercepts, slopes, is_line)
    assert first.tolist() == [0, 1, 0]
    assert sorted(zip(*changes, strict=True)) == [(-1, 0, 0, 2), (0, 1, 1, 2), (2, 0, 2, 3)]


def test_a_feature_that_says_nothing_gets_no_weight() -> None:
    nbest, _, counts = make_list(seed=3)
    same = nbest.with_features({"constant": np.full(len(nbest.all_texts()), 7.0)})
    assert best_weight(same, counts, np.array([1.0, 0.5, 0.25, 2.0]), 3) == 0


@pytest.mark.parametrize("seed", range(3))
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


def test_spread_is_that_within_sentences() -> None:
    nbest = NBest.of([["a", "b"], ["c"]], {"f": [100.0, 102.0, 0.0], "g": [5.0, 5.0, -5.0]})
    assert feature_spread(nbest).tolist() == pytest.approx([np.sqrt(0.5), 1.0])
