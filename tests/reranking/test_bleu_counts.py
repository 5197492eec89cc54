from __future__ import annotations

import numpy as np
import pytest
from sacrebleu.metrics.bleu import BLEU

from fairseq_ext.metrics.corpus_metrics import bleu_metric
from fairseq_ext.reranking.bleu_counts import bleu_of_sums, count_hypotheses
from fairseq_ext.reranking.nbest import Hypothesis, NBest
from tests.reranking.made_up import make_list


def test_sums_give_sacrebleus_corpus_score() -> None:
    nbest, references, counts = make_list(seed=1, sentences=9)
    generator = np.random.default_rng(2)
    sums, expected = [], []
    for _ in range(60):
        choice = np.array([generator.integers(len(own)) for own in nbest.texts])
        rows = generator.permutation(9)[: generator.integers(1, 10)]
        texts = nbest.chosen(choice)
        sums.append(counts[rows, choice[rows]].sum(axis=0))
        expected.append(BLEU().corpus_score([texts[r] for r in rows], [[references[r] for r in rows]]).score)
    assert len(set(expected)) > 30
    assert bleu_of_sums(np.stack(sums)) == pytest.approx(np.array(expected), rel=1e-12)


@pytest.mark.parametrize(
    ("hypothesis", "reference"),
    [
        ("a b c d", "a b x d"),  # no 3-gram and no 4-gram matches
        ("a b c d", "e f g h"),  # nothing does
        ("a b c", "a b c"),  # too short for 4-grams
        ("", "a b c"),
        ("a b c d e f", "a b c d"),
        ("a b c d", "a b c d e f g"),
    ],
)
def test_odd_sums_are_scored_as_by_sacrebleu(hypothesis: str, reference: str) -> None:
    nbest = NBest.of([[Hypothesis(hypothesis, {"model": 0.0})]])
    counts = count_hypotheses(bleu_metric("13a"), nbest, [reference])
    expected = BLEU().corpus_score([hypothesis], [[reference]]).score
    assert bleu_of_sums(counts[:, 0]) == pytest.approx([expected], rel=1e-12, abs=1e-300)


def test_tokeniser_is_the_one_asked_for() -> None:
    nbest = NBest.of([[Hypothesis("take it, please!", {"model": 0.0})]])
    lengths = [
        count_hypotheses(bleu_metric(name), nbest, ["take it"])[0, 0, 0] for name in ("none", "13a", "char")
    ]  # fmt: skip
    assert lengths == [3, 5, 14]
    assert "tok:none" in bleu_metric("none").signature


def test_places_without_hypothesis_count_nothing() -> None:
    nbest = NBest.of([[Hypothesis("a", {"f": 0.0}), Hypothesis("b", {"f": 1.0})], [Hypothesis("c", {"f": 0.0})]])
    counts = count_hypotheses(bleu_metric("13a"), nbest, ["a", "c"])
    assert not counts[1, 1].any()
    assert counts[:, 0, 2].tolist() == [1, 1]
