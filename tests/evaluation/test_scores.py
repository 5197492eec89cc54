from __future__ import annotations

import numpy as np
import pytest
import sacrebleu

from fairseq_ext.evaluation.scores import TestSets, format_table, misclassified_pairs, score_output, signatures

LAW = ["the court is open today", "all rights are reserved here"]
MED = ["take two tablets every day", "keep out of reach of children"]
TESTS = TestSets(
    {"law": LAW, "med": MED},
    {"law": np.array([False, True]), "med": np.array([False, False])},
    {"law": 300, "med": 100},
)


def test_perfect_translations_score_100_everywhere() -> None:
    scores = score_output({"law": LAW, "med": MED}, TESTS)
    for metric in ("chrF", "BLEU"):
        assert scores[metric] == dict.fromkeys(["law", "med", "AVG", "wAVG", "misclassified"], 100.0)


def test_scores_are_sacrebleus_and_averages_are_plain_and_weighted() -> None:
    hypotheses = {"law": ["the court is closed today", LAW[1]], "med": ["take one tablet a day", "keep away"]}
    scores = score_output(hypotheses, TESTS)["chrF"]
    law, med = (sacrebleu.corpus_chrf(hypotheses[d], [TESTS.references[d]]).score for d in ("law", "med"))
    assert scores["law"] == pytest.approx(law, abs=0.01)
    assert scores["AVG"] == pytest.approx((law + med) / 2, abs=0.01)
    assert scores["wAVG"] == pytest.approx(0.75 * law + 0.25 * med, abs=0.01)
    assert scores["misclassified"] == 100.0  # only the second law sentence counts


def test_without_a_teacher_nothing_is_misclassified() -> None:
    tests = TestSets(TESTS.references, None, TESTS.train_sizes)
    assert misclassified_pairs({"law": LAW, "med": MED}, tests) == []
    assert "misclassified" not in score_output({"law": LAW, "med": MED}, tests)["BLEU"]


def test_a_missing_line_is_noticed() -> None:
    with pytest.raises((ValueError, EOFError)):
        score_output({"law": LAW[:1], "med": MED}, TESTS)


def test_table_marks_the_best_of_each_column() -> None:
    row = {"law": 10.0, "AVG": 20.0}
    table = format_table({"mix": {"chrF": row, "BLEU": row}, "gad": {"chrF": {"law": 12.0, "AVG": 19.0}, "BLEU": row}})
    assert "| mix | 10.0 | **20.0** |" in table
    assert "| gad | **12.0** | 19.0 |" in table


def test_signatures_name_the_version() -> None:
    assert all(f"version:{sacrebleu.__version__}" in signature for signature in signatures().values())
