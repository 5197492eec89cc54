from __future__ import annotations

import pytest

from fairseq_ext.report.content import NOTHING, Below, Cell, Missing, Row, Table
from fairseq_ext.report.figures import (
    BEST,
    SPREAD,
    Figure,
    Words,
    figure_rows,
    figure_table,
    table_of_rows,
    transposed,
)
from fairseq_ext.report.records import Measured, over_runs

FOUND = {"mix": [41.0], "gad": [42.004, 41.996], "ad": [41.5, 41.51], "none": []}


def figure(best: object = max, **changes: object) -> Figure:
    return Figure("chrF", lambda row: over_runs(FOUND[row]), best=best, **changes)  # type: ignore[arg-type]


def cells(column: Figure | Words, *rows: str, competing: list[str] | None = None) -> list[Cell]:
    return [row.cells[0] for row in figure_rows([column], rows, competing)]


def test_the_best_is_marked_where_runs_show_it() -> None:
    assert cells(figure(), "gad", "ad", "none") == [Cell("42.00", "±0.01", True), Cell("41.50", "±0.01"), NOTHING]
    assert not any(cell.is_best for cell in cells(figure(), "gad", "ad", "mix"))


@pytest.mark.parametrize(("best", "expected"), [(min, ["ad"]), (max, ["gad"]), (None, [])])
def test_either_end_may_be_the_best(best: object, expected: list[str]) -> None:
    rows = figure_rows([figure(best)], ["gad", "ad"])
    assert [row.name for row in rows if row.cells[0].is_best] == expected


def test_a_mark_shows_what_is_better_than_the_baseline() -> None:
    marked = figure(mark={"mix": "", "gad": "▲", "ad": ""}.__getitem__, baseline="mix")
    assert [cell.is_best for cell in cells(marked, "mix", "gad", "ad")] == [0, 1, 0]
    assert not any(cell.is_best for cell in cells(marked, "mix", "ad"))


def test_a_figure_alone_is_not_the_best() -> None:
    assert not any(cell.is_best for cell in cells(figure(), "gad", "none"))
    assert not any(cell.is_best for cell in cells(figure(), "ad", "gad", competing=["gad"]))


def test_who_does_not_compete_is_never_the_best() -> None:
    assert [cell.is_best for cell in cells(figure(min), "gad", "ad", "mix", competing=["ad", "gad"])] == [0, 1, 0]


def test_numbers_are_written_as_declared() -> None:
    (cell,) = cells(Figure("N", lambda row: Measured(-1234.5), ",.0f", mark=lambda row: "▼"), "a")
    assert cell == Cell("−1,234", mark="▼")
    assert cells(Words("Epochs", {"a": "3, 4", "b": ""}.get), "a", "b", "c") == [Cell("3, 4"), NOTHING, NOTHING]


def test_a_table_of_nothing_is_missing_and_says_so() -> None:
    columns = [figure()]
    assert figure_table("T", "Output", columns, [("", ["none"])], Below()) == Missing("T", "not measured")
    table = figure_table("T", "Output", columns, [("here", ["mix"]), ("gone", [])], Below())
    assert isinstance(table, Table)
    assert [heading for heading, _ in table.groups] == ["here"]


def test_figures_compete_across_groups() -> None:
    table = figure_table("T", "Output", [figure()], [("", ["ad"]), ("told", ["gad"])], Below())
    assert isinstance(table, Table)
    assert [rows[0].cells[0].is_best for _, rows in table.groups] == [False, True]


@pytest.mark.parametrize(
    ("names", "notes"),
    [(["mix"], []), (["gad"], [SPREAD]), (["mix", "gad"], [SPREAD]), (["ad", "gad"], [BEST, SPREAD])],
)
def test_signs_are_explained_where_they_stand(names: list[str], notes: list[str]) -> None:
    rows = figure_rows([figure()], names)
    table = table_of_rows("T", "Output", ["chrF"], [("", rows)], Below([BEST, "Always.", SPREAD]))
    assert isinstance(table, Table)
    assert sorted(table.below.notes) == sorted([*notes, "Always."])


def test_columns_become_rows() -> None:
    rows = [Row("a", [Cell("1"), Cell("2")]), Row("b", [Cell("3"), NOTHING])]
    assert transposed(rows, ["x", "y"]) == [Row("x", [Cell("1"), Cell("3")]), Row("y", [Cell("2"), NOTHING])]
