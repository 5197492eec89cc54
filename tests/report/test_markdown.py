"""Readings come out as they went in and as safe HTML; nothing elsewhere breaks the Markdown."""

import html
import logging
from pathlib import Path

import pytest

from fairseq_ext.report.content import Below, Cell, Report, Row, Section, Table
from fairseq_ext.report.markdown import escape, render_html, render_markdown
from fairseq_ext.report.writing import reading_sections


def read(folder: Path, text: str) -> str:
    """A reading as it comes out of the Markdown, when it has been read from a file."""
    (folder / "words.md").write_text(text, encoding="utf-8")
    report = Report("T", "L", [], reading_sections(folder / "words.md"))
    return render_markdown(report).removeprefix("# T\n\nL\n\n## Reading\n\n").removesuffix("\n")


def test_a_reading_comes_out_as_it_went_in(tmp_path: Path) -> None:
    text = "### Head\n\nSome *stressed*, **bold** and `code_text`\nwords.\n- one\n- two\n\n1. three\n2. four"
    assert read(tmp_path, text) == text


@pytest.mark.parametrize("head", ["# Head", "###### Head #", "  ## Head", "Head\n====", "Head\n---", "He\nad\n--"])
def test_headings_of_a_reading_are_below_that_of_their_section(tmp_path: Path, head: str) -> None:
    shown = "### He ad" if "He\n" in head else "### Head"
    text = read(tmp_path, f"{head}\n\nText\n\n```\n# no head\n```\n{head}")
    assert text == f"{shown}\n\nText\n\n```\n# no head\n```\n{shown}"
    assert render_html(text).count("<h3>") == 2


def test_control_characters_of_a_reading_are_seen(tmp_path: Path) -> None:
    assert read(tmp_path, "\n\na\tbell\x07\r\n\u2028b\n") == "a   bell\ufffd\n\nb"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a *b* **c** `d_e`", "<p>a <em>b</em> <strong>c</strong> <code>d_e</code></p>"),
        ("snake_case_name and 2 * 3 * 4", "<p>snake_case_name and 2 * 3 * 4</p>"),
        ("one:\n- two\n  three", "<p>one:</p>\n<ul>\n<li>two\nthree</li>\n</ul>"),
        ("[x](http://y)", '<p><a href="http://y">x</a></p>'),
        # Nothing is fetched or run.
        ("![x](http://y)", '<p>!<a href="http://y">x</a></p>'),
        ("[x](javascript:y)", "<p>[x](javascript:y)</p>"),
        ("<script>x</script>", "<p>&lt;script&gt;x&lt;/script&gt;</p>"),
        ("a <b>b</b> &amp; c", "<p>a &lt;b&gt;b&lt;/b&gt; &amp; c</p>"),
    ],
)
def test_markdown_as_html(text: str, shown: str) -> None:
    assert render_html(text) == f"{shown}\n"


def test_the_parser_is_quiet_also_with_fairseq_loaded(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG):
        render_html("a")
    assert not caplog.records


@pytest.mark.parametrize("text", ["*x* `y` [z](u) _w_ a_b", "# no title", "1. no list", "a\\|b & <b>&lt;", "~~~"])
def test_escaped_text_is_shown_as_it_is(text: str) -> None:
    assert html.unescape(render_html(escape(text))) == f"<p>{text}</p>\n"


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


def test_seeds_of_a_system_are_one_source() -> None:
    files = [
        "perplexity/base/p.json",
        "perplexity/tree@1/p.json",
        "perplexity/tree@2/p.json",
        "perplexity/one@3/p.json",
    ]
    shown = render_markdown(Report("T", "L", [], [Section("S", "s", [Table("A", "", [], [], below=Below([], files))])]))
    assert "From `perplexity/base/p.json` and `perplexity/tree@*/p.json` and `perplexity/one@3/p.json`." in shown
