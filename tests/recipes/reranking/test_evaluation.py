"""Scores are sacrebleu's, and differences are tested on paired resamples."""

from __future__ import annotations

import numpy as np
import pytest
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF

from fairseq_ext.metrics.comparison import Comparison
from fairseq_ext.metrics.records import Records
from fairseq_ext.recipes.reranking.evaluation import choose, evaluate, score_tables, with_others
from tests.recipes.reranking.made_up import make_list

WEIGHTS = {"one": np.array([0.0, 1.0, -0.5]), "same": np.array([0.0, 0.0, 0.0])}
PAIRS = [("same", "first-best"), ("one", "other")]


def evaluated() -> tuple[Records, list[Comparison], list[str], list[str]]:
    """Records, comparisons, the hypotheses of the weights `one`, and the references."""
    nbest, references, counts = make_list(seed=6, sentences=40)
    groups = {"odd": np.arange(1, 40, 2), "few": np.arange(3)}
    chosen = {name: nbest.chosen(choice) for name, choice in choose(nbest, counts, WEIGHTS).items()}
    others = {"other": [text.replace("w1", "w2") for text in chosen["first-best"]]}
    texts = with_others(chosen, others)
    records, comparisons = evaluate(
        texts, references, groups=groups, pairs=PAIRS, tokenizer="13a", resamples=50, seed=1
    )
    return Records(records), comparisons, chosen["one"], references


def test_scores_are_sacrebleus() -> None:
    records, _, hypotheses, references = evaluated()
    for name, kind in (("BLEU", BLEU), ("chrF", CHRF)):
        for group, rows in (("all", range(40)), ("odd", range(1, 40, 2))):
            score = kind().corpus_score([hypotheses[r] for r in rows], [[references[r] for r in rows]]).score
            [found] = records.of("one", name, group)
            assert (found.value, found.n) == (pytest.approx(score), len(rows))


def test_oracle_is_the_best_and_equal_choices_do_not_differ() -> None:
    records, comparisons, _, _ = evaluated()
    assert records.systems("BLEU") == ["first-best", "other", "one", "same", "oracle"]
    scores = {row: records.of(row, "BLEU", "all")[0].value for row in records.systems("BLEU")}
    assert max(scores.values()) == scores["oracle"]
    changed = {row: records.of(row, "changed", "all")[0].value for row in scores}
    assert changed["same"] == 0 < changed["one"]
    assert {(each.difference, each.p) for each in comparisons if each.system == "same"} == {(0, 1), (0, None)}


def test_pairs_are_compared_on_every_set() -> None:
    records, comparisons, _, _ = evaluated()
    found = {(each.metric, each.domain): each for each in comparisons if each.system == "one"}
    assert list(found) == [(metric, group) for metric in ("BLEU", "chrF") for group in ("all", "odd", "few")]
    for (metric, group), each in found.items():
        gap = records.of("one", metric, group)[0].value - records.of("other", metric, group)[0].value
        assert each.difference == pytest.approx(gap)
    whole, few = found["BLEU", "all"], found["BLEU", "few"]
    assert whole.low is not None
    assert whole.high is not None
    assert whole.low < whole.difference < whole.high
    assert (few.p, few.low, few.n) == (None, None, 3)


def test_tables_have_every_row_and_set_and_the_oracle_is_never_the_best() -> None:
    records, *_ = evaluated()
    tables = score_tables(records, "13a", "Scores: {}")
    assert [table.title for table in tables] == ["Scores: BLEU", "Scores: chrF"]
    lines = tables[0].markdown().splitlines()
    assert "| Chosen by | Changed | all | odd | few |" in lines
    [oracle] = [line for line in lines if line.startswith("| oracle |")]
    assert "**" not in oracle
    assert "tok:13a" in lines[-1]
