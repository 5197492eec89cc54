from __future__ import annotations

import numpy as np
import pytest
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF

from fairseq_ext.metrics.bootstrap import format_p
from fairseq_ext.reranking.report import choose, compare, differences, format_report
from tests.reranking.made_up import make_list

WEIGHTS = {"one": np.array([0.0, 1.0, -0.5]), "same": np.array([0.0, 0.0, 0.0])}


def make_record(resamples: int = 50) -> tuple[dict, list[str], list[str]]:
    """The figures, the hypotheses of the weights `one`, and the references."""
    nbest, references, counts = make_list(seed=6, sentences=40)
    groups = {"odd": np.arange(1, 40, 2), "few": np.arange(3)}
    others = {"other": [text.replace("w1", "w2") for text in nbest.chosen(np.zeros(40, dtype=int))]}
    choices = choose(nbest, counts, WEIGHTS)
    record = compare(
        nbest, references, choices, others=others, groups=groups, tokenizer="13a", resamples=resamples, seed=1
    )
    return record, nbest.chosen(nbest.best(WEIGHTS["one"])), references


def test_scores_are_sacrebleus() -> None:
    record, hypotheses, references = make_record()
    found = record["systems"]["one"]
    for name, kind in (("BLEU", BLEU), ("chrF", CHRF)):
        for group, rows in (("all", range(40)), ("odd", range(1, 40, 2))):
            score = kind().corpus_score([hypotheses[r] for r in rows], [[references[r] for r in rows]]).score
            assert found[name][group] == pytest.approx(score, abs=0.005)
    assert record["signatures"]["BLEU"].startswith("nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp")


def test_oracle_is_the_best_and_equal_choices_do_not_differ() -> None:
    systems = make_record()[0]["systems"]
    assert list(systems) == ["first-best", "other", "one", "same", "oracle"]
    assert systems["oracle"]["BLEU"]["all"] >= max(system["BLEU"]["all"] for system in systems.values())
    assert systems["same"] == systems["first-best"]
    assert systems["same"]["changed"] == 0 < systems["one"]["changed"]


def test_every_two_systems_are_compared() -> None:
    record, _, _ = make_record()
    pairs = {(c["system"], c["than"]): c for c in record["comparisons"]}
    assert list(pairs) == [
        *(("other", "first-best"), ("one", "first-best"), ("same", "first-best")),
        *(("one", "other"), ("same", "other"), ("same", "one")),
    ]
    assert pairs["same", "first-best"]["BLEU"]["all"] == {"difference": 0, "p": 1}
    systems = record["systems"]
    for (one, than), comparison in pairs.items():
        gap = systems[one]["chrF"]["few"] - systems[than]["chrF"]["few"]
        assert comparison["chrF"]["few"]["difference"] == pytest.approx(gap, abs=0.011)
        assert 0 < comparison["chrF"]["all"]["p"] <= 1


def test_tables_have_every_row_and_column() -> None:
    record, _, _ = make_record(resamples=200)
    record["comparisons"][1]["BLEU"]["odd"]["p"] = 0.01
    record["comparisons"][1]["BLEU"]["all"]["p"] = 0.2
    text = format_report(record)
    assert text.startswith("40 sentences, ")
    lines = text.splitlines()
    assert "| BLEU | changed | all | odd | few |" in lines
    row = next(line for line in lines if line.startswith("| one |"))
    cells = [cell.strip() for cell in row.strip("|").split("|")]
    assert cells[3] == f"{record['systems']['one']['BLEU']['odd']:.2f}†"
    assert cells[2] == f"{record['systems']['one']['BLEU']['all']:.2f}"
    assert sum(line.startswith("| oracle |") for line in lines) == 2
    assert any(line.startswith("| same over one | ") for line in lines)


def test_groups_of_few_sentences_are_not_tested() -> None:
    columns = {"all": np.array([30.0, 29.0, 31.0]), "few": np.array([30.0])}
    others = {"all": np.array([28.0, 30.0, 28.0]), "few": np.array([28.0])}
    found = differences(columns, others)
    assert found["all"]["p"] is not None
    assert found["few"] == {"difference": 2.0, "p": None}
    assert format_p(found["few"]["p"]) == "not tested"
