"""Tables over records: mean ± sd, the best in bold, nothing where nothing was measured."""

from __future__ import annotations

from fairseq_ext.metrics.records import Mean
from fairseq_ext.metrics.tables import BEST, SPREAD, Column, Table, Value

SCORES: dict[str, Value] = {"mix": Mean(30.126, 0.2, 3), "gad": Mean(31.5), "tag": None}


def test_values_are_written_and_the_best_is_in_bold() -> None:
    columns = [
        Column("chrF", SCORES.get, ".1f", max),
        Column("TER", lambda row: -1.25, best=None),
        Column("Kind", lambda row: "a|b"),
    ]
    text = Table("Scores", "System", list(SCORES), columns, ["A note."]).markdown()
    assert text.splitlines()[2:7] == [
        "| System | chrF | TER | Kind |",
        "| :- | -: | -: | :- |",
        "| mix | 30.1 ± 0.2 | −1.25 | a\\|b |",
        "| gad | **31.5** | −1.25 | a\\|b |",
        "| tag | – | −1.25 | a\\|b |",
    ]
    assert text.splitlines()[-1] == f"A note. {SPREAD} {BEST}"


def test_zero_can_be_the_best() -> None:
    [zero, one] = Column("errors", {"a": 0, "b": 1}.get, ".0f", min).cells(["a", "b"])
    assert (zero, one) == ("**0**", "1")


def test_without_rows_there_is_no_table() -> None:
    text = Table("Scores", "System", [], [Column("chrF", SCORES.get)]).markdown()
    assert "|" not in text
    assert text.startswith("### Scores")
