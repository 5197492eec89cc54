"""Readings are understood as far as promised, and nothing in them or elsewhere breaks the Markdown."""

import pytest

from fairseq_ext.report.content import Below, Cell, Report, Row, Section, Table
from fairseq_ext.report.markdown import parse_markdown, parse_spans, render_markdown


def test_blocks_of_a_reading() -> None:
    text = "# Title #\nFirst line\nsecond line\n\n- one\n  goes on\n- two\n1. three\n2) four\n\nEnd 1. of it"
    blocks = [
        (block.kind, ["".join(text for _, text in item) for item in block.items]) for block in parse_markdown(text)
    ]
    assert blocks == [
        ("h", ["Title"]),
        ("p", ["First line second line"]),
        ("ul", ["one goes on", "two"]),
        ("ol", ["three", "four"]),
        ("p", ["End 1. of it"]),
    ]


def test_a_list_may_follow_a_paragraph_at_once() -> None:
    assert [block.kind for block in parse_markdown("Two things:\n* a\n* b")] == ["p", "ul"]


@pytest.mark.parametrize(
    ("text", "spans"),
    [
        ("plain", [("plain", "plain")]),
        (
            "a *b* **c** `d_e`",
            [("plain", "a "), ("em", "b"), ("plain", " "), ("strong", "c"), ("plain", " "), ("code", "d_e")],
        ),
        ("_b_ __c__", [("em", "b"), ("plain", " "), ("strong", "c")]),
        ("snake_case_name and 2 * 3 * 4", [("plain", "snake_case_name and 2 * 3 * 4")]),
        ("<b>[x](http://y)</b>", [("plain", "<b>[x](http://y)</b>")]),
        ("", []),
    ],
)
def test_emphasis(text: str, spans: list[tuple[str, str]]) -> None:
    assert parse_spans(text) == spans


def test_a_reading_comes_out_as_it_went_in() -> None:
    text = "### Head\n\nSome *stressed*, **bold** and `code_text` words.\n\n- one\n- two\n\n1. three\n2. four"
    report = Report("T", "L", [], [Section("reading", "Reading", parse_markdown(text))])
    assert text in render_markdown(report)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a|b", "a\\|b"),
        ("<script>", "\\<script\\>"),
        ("two\nlines\r\n", "two lines"),
        ("*x* `y` [z](u) _w_ a_b", "\\*x\\* \\`y\\` \\[z\\](u) \\_w\\_ a_b"),
        ("# no title", "\\# no title"),
        ("1. no list", "1\\. no list"),
        ("- no list", "\\- no list"),
        ("a\\|b", "a\\\\\\|b"),
        ("bell\x07", "bell\ufffd"),
        ("&lt;", "\\&lt;"),
    ],
)
def test_text_stays_text_in_a_table(text: str, shown: str) -> None:
    table = Table("T", "C", [text], [(text, [Row(text, [Cell(text, text)])])], below=Below([text], ["f.json"]))
    lines = render_markdown(Report("R", "L", [], [Section("s", "S", [table])])).splitlines()
    assert f"| C | {shown} |" in lines
    assert f"| *{shown}* |  |" in lines
    assert f"| {shown} | {shown} {shown} |" in lines
    assert f"{shown} From `f.json`." in lines
