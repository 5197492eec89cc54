"""Scores are sacrebleu's, the oracle is below no choice; line searches miss no value, ascents end where none gains."""

import numpy as np
import pytest
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF

from fairseq_ext.experiments.metrics.corpus_metrics import bleu_metric
from fairseq_ext.experiments.metrics.records import Records
from fairseq_ext.experiments.reranking.choices import (
    ascend,
    best_weight,
    bleu_of_choice,
    bleu_of_sums,
    choose,
    count_hypotheses,
    feature_spread,
    oracle_choice,
    upper_envelopes,
)
from fairseq_ext.experiments.reranking.measure import evaluate
from fairseq_ext.experiments.reranking.nbest import NBest
from tests.experiments.reranking.made_up import make_list

WEIGHTS = {"one": np.array([0.0, 1.0, -0.5]), "same": np.array([0.0, 0.0, 0.0])}
PAIRS = [("same", "first-best"), ("one", "other")]


def test_scores_are_sacrebleus_and_differences_tested_on_every_set() -> None:
    nbest, references, counts = make_list(seed=6, sentences=40)
    chosen = {name: nbest.chosen(choice) for name, choice in choose(nbest, counts, WEIGHTS).items()}
    texts = {"first-best": chosen["first-best"], "other": [text.replace("w1", "w2") for text in chosen["first-best"]]}
    groups = {"odd": np.arange(1, 40, 2), "few": np.arange(3)}
    scored, comparisons = evaluate(
        {**texts, **chosen}, references, groups, PAIRS, tokenizer="13a", resamples=50, seed=1
    )
    records = Records(scored)
    assert records.systems("BLEU") == ["first-best", "other", "one", "same", "oracle"]
    for name, kind in (("BLEU", BLEU), ("chrF", CHRF)):
        for group, rows in (("all", range(40)), ("odd", range(1, 40, 2))):
            score = kind().corpus_score([chosen["one"][r] for r in rows], [[references[r] for r in rows]]).score
            [record] = records.of("one", name, group)
            assert (record.value, record.n) == (pytest.approx(score), len(rows))
    scores = {row: records.of(row, "BLEU", "all")[0].value for row in records.systems("BLEU")}
    assert max(scores.values()) == scores["oracle"]
    assert {(each.difference, each.p) for each in comparisons if each.system == "same"} == {(0, 1), (0, None)}
    pairs = {(each.metric, each.domain): each for each in comparisons if each.system == "one"}
    assert list(pairs) == [(metric, group) for metric in ("BLEU", "chrF") for group in ("all", "odd", "few")]
    for (metric, group), each in pairs.items():
        gap = records.of("one", metric, group)[0].value - records.of("other", metric, group)[0].value
        assert each.difference == pytest.approx(gap)
    assert [each.p is None for each in pairs.values()] == [False, True, True] * 2  # 40, 20 and 3 sentences


def test_sums_give_sacrebleus_corpus_score() -> None:
    pairs = {
        "a b c d e": "a b c d",
        "a b c d": "a b x d",  # no 3-gram and no 4-gram matches
        "e f g h": "a b c d",  # nothing does
        "a b c": "a b c",  # too short for 4-grams
        "": "a b c",
        "a b c e": "a b c e f g",
    }
    nbest, references = NBest.of([[text] for text in pairs], {"model": [0.0] * len(pairs)}), list(pairs.values())
    counts = count_hypotheses(bleu_metric("13a"), nbest, references)[:, 0]
    sums, expected = [], []
    for rows in [[0], [1], [2], [3], [4], [5], [0, 1], [0, 2, 3], [1, 4, 5], [3, 5], [0, 1, 2, 3, 4, 5]]:
        texts = [nbest.texts[row][0] for row in rows]
        sums.append(counts[rows].sum(axis=0))
        expected.append(BLEU().corpus_score(texts, [[references[row] for row in rows]]).score)
    assert bleu_of_sums(np.stack(sums)) == pytest.approx(expected, rel=1e-12, abs=1e-300)


def test_oracle_is_not_below_any_choice_it_was_given() -> None:
    nbest, _, counts = make_list(seed=2)
    generator = np.random.default_rng(2)
    others = [nbest.best(generator.normal(size=3)) for _ in range(5)]
    choice = oracle_choice(counts, nbest.is_hypothesis, others)
    score = bleu_of_choice(counts, choice)
    assert score >= max(bleu_of_choice(counts, other) for other in others)
    for sentence, own in enumerate(nbest.texts):
        for number in range(len(own)):
            changed = np.where(np.arange(len(choice)) == sentence, number, choice)
            assert bleu_of_choice(counts, changed) <= score + 1e-9


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
