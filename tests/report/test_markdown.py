"""Text stays text in Markdown."""

import html

import pytest
from markdown_it import MarkdownIt

from fairseq_ext.report.markdown import escape
from fairseq_ext.report.tables import Column, Table


@pytest.mark.parametrize("text", ["*x* `y` [z](u) _w_ a_b", "# no title", "1. no list", "a\\|b & <b>&lt;", "~~~"])
def test_escaped_text_is_shown_as_it_is(text: str) -> None:
    assert html.unescape(MarkdownIt("commonmark").render(escape(text))) == f"<p>{text}</p>\n"


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
    table = Table("T", "C", [text], [Column(text, lambda row: text)])
    lines = table.markdown().splitlines()
    assert f"| C | {shown} |" in lines
    assert f"| {shown} | {shown} |" in lines
