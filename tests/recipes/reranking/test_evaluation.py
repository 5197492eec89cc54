"""Scores are sacrebleu's, and differences are tested on paired resamples."""

from __future__ import annotations

import numpy as np
import pytest
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF

from fairseq_ext.metrics.records import Records
from fairseq_ext.recipes.reranking.evaluation import choose, evaluate
from tests.recipes.reranking.made_up import make_list

WEIGHTS = {"one": np.array([0.0, 1.0, -0.5]), "same": np.array([0.0, 0.0, 0.0])}
PAIRS = [("same", "first-best"), ("one", "other")]


def test_scores_are_sacrebleus_and_differences_tested_on_every_set() -> None:
    nbest, references, counts = make_list(seed=6, sentences=40)
    chosen = {name: nbest.chosen(choice) for name, choice in choose(nbest, counts, WEIGHTS).items()}
    others = {"other": [text.replace("w1", "w2") for text in chosen["first-best"]]}
    groups = {"odd": np.arange(1, 40, 2), "few": np.arange(3)}
    found, comparisons = evaluate(
        chosen, references, others=others, groups=groups, pairs=PAIRS, tokenizer="13a", resamples=50, seed=1
    )
    records = Records(found)
    assert records.systems("BLEU") == ["first-best", "other", "one", "same", "oracle"]
    for name, kind in (("BLEU", BLEU), ("chrF", CHRF)):
        for group, rows in (("all", range(40)), ("odd", range(1, 40, 2))):
            score = kind().corpus_score([chosen["one"][r] for r in rows], [[references[r] for r in rows]]).score
            [record] = records.of("one", name, group)
            assert (record.value, record.n) == (pytest.approx(score), len(rows))
    scores = {row: records.of(row, "BLEU", "all")[0].value for row in records.systems("BLEU")}
    assert max(scores.values()) == scores["oracle"]
    changed = {row: records.of(row, "changed", "all")[0].value for row in scores}
    assert changed["same"] == 0 < changed["one"]

    assert {(each.difference, each.p) for each in comparisons if each.system == "same"} == {(0, 1), (0, None)}
    pairs = {(each.metric, each.domain): each for each in comparisons if each.system == "one"}
    assert list(pairs) == [(metric, group) for metric in ("BLEU", "chrF") for group in ("all", "odd", "few")]
    for (metric, group), each in pairs.items():
        gap = records.of("one", metric, group)[0].value - records.of("other", metric, group)[0].value
        assert each.difference == pytest.approx(gap)
    whole, few = pairs["BLEU", "all"], pairs["BLEU", "few"]
    assert whole.low is not None
    assert whole.high is not None
    assert whole.low < whole.difference < whole.high
    assert (few.p, few.low, few.n) == (None, None, 3)
