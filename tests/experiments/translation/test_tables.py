"""Tables have every row, mark what is best and significant, and say why they are missing."""

import copy
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from fairseq_ext.experiments.translation import tables
from fairseq_ext.experiments.translation.results import Design, Results, read_results

from fairseq_ext.inputs.errors import InputError
from fairseq_ext.report.content import Missing, Row, Table
from tests.experiments.translation import made_up


@pytest.fixture
def design(tmp_path: Path) -> Design:
    return Design.of(made_up.make_experiment(tmp_path))


def results(scores: dict[str, Any] | None = None, **others: Any) -> Results:
    return Results(scores=scores or made_up.make_scores(), **others)


def rows_of(table: Table | Missing) -> dict[str, Row]:
    assert isinstance(table, Table)
    return {row.name: row for _, rows in table.groups for row in rows}


def column(table: Table | Missing, name: str) -> dict[str, Any]:
    assert isinstance(table, Table)
    number = list(table.columns).index(name)
    return {row: cells.cells[number] for row, cells in rows_of(table).items()}


def test_the_file_says_which_output_belongs_where(design: Design) -> None:
    assert list(design.main) == ["mix", "ft", "ad-oracle", "ad-classifier", "gad"]
    assert list(design.ablation) == ["gad", "gad-ce"]
    assert design.told == {"ft", "ad-oracle"}
    assert design.per_domain == {"ft"}
    assert design.baseline == "mix"


def test_named_outputs_and_patterns_keep_their_order(tmp_path: Path) -> None:
    design = Design.of(made_up.make_experiment(tmp_path, main=["gad*", "mix"], ablation=["gad-ce"]))
    assert list(design.main) == ["gad", "gad-ce", "mix"]
    with pytest.raises(InputError, match="evaluate: report: main: no output 'tag-\\*'; there are mix, ft"):
        Design.of(made_up.make_experiment(tmp_path, main=["tag-*"]))


def test_sizes_are_summed() -> None:
    table = tables.training_sizes(results())
    assert isinstance(table, Table)
    assert [cell.text for cell in rows_of(table)["TALK"].cells] == ["3,000", "400"]
    assert table.total is not None
    assert [cell.text for cell in table.total.cells] == ["6,000", "1,200"]


def test_runs_of_a_system_are_one_row(design: Design) -> None:
    rows = rows_of(tables.parameters(results(parameters=made_up.make_parameters(made_up.DOMAINS)), design))
    assert list(rows) == ["mix", "ft", "ad", "gad", "gad-ce"]
    assert [(cell.text, cell.note) for cell in rows["ft"].cells[:2]] == [
        ("3 × 5,000,000", "[+10,000,000]"),
        ("3 × 5,000,000", ""),
    ]
    assert [(cell.text, cell.note) for cell in rows["gad"].cells[:2]] == [
        ("6,300,000", "[+1,300,000]"),
        ("1,300,000", ""),
    ]
    assert rows["mix"].cells[0].note == ""


def test_scores_come_with_deviation_and_in_two_groups(design: Design) -> None:
    table = tables.quality(results(), design, "chrF")
    assert isinstance(table, Table)
    assert list(table.columns) == ["IT", "LAW", "TALK", "AVG", "wAVG"]
    assert [[row.name for row in rows] for _, rows in table.groups] == [
        ["ft", "ad-oracle"],
        ["mix", "ad-classifier", "gad"],
    ]
    cell = column(table, "AVG")["gad"]
    assert (cell.text, cell.note) == ("46.50", "±0.25")
    assert table.below.signatures == {"chrF": made_up.SIGNATURES["chrF"]}
    assert table.below.sources == ["scores/scores.json"]


def test_the_best_does_not_compete_with_what_is_told_the_domain(design: Design) -> None:
    few = replace(design, main=["ft", "ad-oracle", "mix", "ad-classifier"])
    cells = column(tables.quality(results(), few, "chrF"), "AVG")
    assert [name for name, cell in cells.items() if cell.is_best] == ["ad-classifier"]


def test_what_is_not_shown_is_not_the_best(design: Design) -> None:
    cells = column(tables.quality(results(), design, "chrF"), "AVG")
    # Both are better than the baseline; whether one is better than the other was not tested.
    assert [name for name, cell in cells.items() if cell.mark] == ["ft", "ad-oracle", "ad-classifier", "gad"]
    assert not any(cell.is_best for cell in cells.values())


def test_a_single_output_is_not_called_the_best(design: Design) -> None:
    alone = replace(design, main=["mix"])
    assert not column(tables.quality(results(), alone, "chrF"), "AVG")["mix"].is_best


def test_marks_need_significance_and_point_the_right_way(design: Design) -> None:
    scores = made_up.make_scores(gains=made_up.GAIN | {"ad-classifier": -1.5, "gad": 0.6})
    scores["outputs"]["mix"]["chrF"]["IT"]["p"] = 0.001  # of the baseline itself, which means nothing
    cells = column(tables.quality(results(scores), design, "chrF"), "IT")
    assert {name: cell.mark for name, cell in cells.items()} == {
        "ft": "▲",
        "ad-oracle": "▲",
        "mix": "",
        "ad-classifier": "▼",
        "gad": "",
    }


@pytest.mark.parametrize(("p", "mark"), [(0.0499, "▲"), (0.05, ""), (None, "")])
def test_the_threshold_itself_is_not_significant(design: Design, p: float | None, mark: str) -> None:
    scores = made_up.make_scores()
    scores["outputs"]["gad"]["chrF"]["AVG"]["p"] = p
    assert column(tables.quality(results(scores), design, "chrF"), "AVG")["gad"].mark == mark


def test_figures_that_are_not_there_leave_a_dash(design: Design) -> None:
    scores = copy.deepcopy(made_up.make_scores())
    del scores["outputs"]["gad"]["chrF"]["AVG"]
    cells = column(tables.quality(results(scores), design, "chrF"), "AVG")
    assert cells["gad"].text == "–"
    assert cells["ad-classifier"].is_best


def test_out_of_domain_leaves_out_what_must_be_told(design: Design) -> None:
    table = tables.out_of_domain(results(), design)
    assert isinstance(table, Table)
    assert list(table.columns) == ["NEWS: chrF", "NEWS: BLEU"]
    assert list(rows_of(table)) == ["mix", "ad-classifier", "gad"]


def test_misclassified_says_how_many(design: Design) -> None:
    table = tables.misclassified(results(), design)
    assert isinstance(table, Table)
    assert table.below.notes[0] == "120 of 1,200 test sentences (10.0%), scored as one corpus."
    assert column(table, "chrF")["gad"].text == "36.50"


def test_ablation_has_the_averages(design: Design) -> None:
    table = tables.ablation(results(), design)
    assert isinstance(table, Table)
    assert list(table.columns) == ["chrF: AVG", "chrF: wAVG", "BLEU: AVG", "BLEU: wAVG"]
    assert list(rows_of(table)) == ["gad", "gad-ce"]


def test_speed_adds_the_classifier(design: Design) -> None:
    table = tables.speed(results(speed=made_up.make_speed(made_up.DOMAINS)), design)
    assert isinstance(table, Table)
    rows = rows_of(table)
    assert list(rows) == ["ad-oracle", "ad-classifier", "gad"]
    assert [cell.text for cell in rows["ad-classifier"].cells] == ["51.60", "1,032.00", "23.3", "4.5"]
    assert not any(cell.is_best for row in rows.values() for cell in row.cells)
    assert "Machine: a computer, 2 cores." in table.below.notes


def test_agreement_is_the_mean_of_the_runs() -> None:
    runs = {run: made_up.make_gates(made_up.DOMAINS) for run in ("gad@1", "gad@2", "gad-ce")}
    runs["gad@2"]["agreement"][0] = 0.5
    (table,) = tables.agreement(results(gates=runs), ["gad"])
    assert list(table.columns) == ["encoder 1", "encoder 2", "decoder 1", "decoder 2", "mean"]
    first = rows_of(table)["the classifier’s choice"].cells[0]
    assert (first.text, first.note) == ("55.0", "±7.1")


@pytest.mark.parametrize(
    ("table", "reason"),
    [
        (lambda r, d: tables.training_sizes(r), "there is no scores/scores.json"),
        (tables.parameters, "there is no analysis/parameters/parameters.json"),
        (lambda r, d: tables.classifier(r), "there is no teacher/teacher.json"),
        (lambda r, d: tables.quality(r, d, "chrF"), "there is no scores/scores.json"),
        (tables.misclassified, "there is no scores/scores.json"),
        (tables.speed, "there is no analysis/speed/speed.json"),
        (tables.out_of_domain, "there is no scores/scores.json"),
        (tables.ablation, "there is no scores/scores.json"),
    ],
)
def test_missing_records_are_named(design: Design, table: Any, reason: str) -> None:
    missing = table(Results(), design)
    assert isinstance(missing, Missing)
    assert reason in missing.reason


def test_what_was_not_run_says_so(design: Design) -> None:
    scores = made_up.make_scores()
    for output in scores["outputs"].values():
        for metric in ("chrF", "BLEU"):
            output[metric].pop("ood:NEWS", None)
            output[metric].pop("misclassified")
    found = results(scores)
    assert tables.quality(found, design, "COMET") == Missing("Table 4. Translation quality: COMET", "not run: no model")
    for table in (
        tables.out_of_domain(found, design),
        tables.misclassified(found, design),
        tables.ablation(found, replace(design, ablation=[])),
    ):
        assert isinstance(table, Missing)


def test_a_broken_record_is_refused(tmp_path: Path) -> None:
    (tmp_path / "scores").mkdir()
    (tmp_path / "scores" / "scores.json").write_text("{", encoding="utf-8")
    with pytest.raises(InputError, match=r"scores\.json: cannot be read .*; make it again"):
        read_results(tmp_path)
