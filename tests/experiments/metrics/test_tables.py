"""Tables over records: mean ± sd, the best in bold, nothing where nothing was measured; text stays text in them."""

import html

from hypothesis import example, given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from fairseq_ext.experiments.metrics.records import Mean
from fairseq_ext.experiments.metrics.tables import BEST, SPREAD, Column, Table, Value, escape

SCORES: dict[str, Value] = {"mix": Mean(30.126, 0.2), "gad": Mean(31.5), "tag": None}


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


def test_zero_can_be_best_and_empty_tables_have_no_grid() -> None:
    assert Column("errors", {"a": 0, "b": 1}.get, ".0f", min).cells(["a", "b"]) == ["**0**", "1"]
    assert "|" not in Table("Scores", "System", [], [Column("chrF", SCORES.get)]).markdown()


_texts = st.text("a1 *_`[](){}<>|&;#~$\\!-+=.:/\n\"'", max_size=12)


@given(_texts)
@example("1.")
@example("&lt;b&gt; <b> <http://a>")
@settings(deadline=None, max_examples=100)
def test_text_stays_text(text: str) -> None:
    shown = html.escape(" ".join(text.split())).replace("&#x27;", "'")
    page = MarkdownIt("commonmark", {"html": False}).enable("table").render(f"{escape(text)}\n")
    assert page == (f"<p>{shown}</p>\n" if shown else "")


def test_control_characters_become_marks_and_the_rest_stays() -> None:
    assert escape("bell\x07 \u202eleft p < 0.05 & q") == "bell\ufffd \ufffdleft p < 0.05 & q"
