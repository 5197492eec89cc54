"""Text stays text in Markdown."""

from __future__ import annotations

from html.parser import HTMLParser

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from fairseq_ext.metrics.tables import Column, Table, escape

_texts = st.text("a1 *_`[](){}<>|&;#~$\\!-+=.:/\n\"'", max_size=12)


class Html(HTMLParser):
    """The elements of rendered Markdown, and its text."""

    def __init__(self, markdown: str) -> None:
        super().__init__()
        self.elements: set[str] = set()
        self.cells: list[str] = []
        self.feed(MarkdownIt("commonmark", {"html": False}).enable("table").render(markdown))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.add(tag)
        if tag in ("p", "td", "th"):
            self.cells.append("")

    def handle_data(self, data: str) -> None:
        if self.cells:
            self.cells[-1] += data.strip("\n")


@given(_texts)
@example("---")
@example("1.")
@example("&lt;b&gt; <b> <http://a>")
@settings(deadline=None, max_examples=300)
def test_escaped_text_is_shown_as_it_is(text: str) -> None:
    shown = " ".join(text.split())
    page = Html(f"{escape(text)}\n")
    assert (page.cells, page.elements) == (([shown], {"p"}) if shown else ([], set()))


@given(_texts)
@settings(deadline=None, max_examples=100)
def test_text_stays_text_in_a_table(text: str) -> None:
    shown = " ".join(text.split())
    page = Html(Table("T", "C", [text], [Column(text, lambda row: text)]).markdown())
    assert page.cells[:4] == ["C", shown, shown, shown]
    assert page.elements == {"h3", "table", "thead", "tbody", "tr", "th", "td"}


@pytest.mark.parametrize(
    ("text", "shown"), [("bell\x07", "bell\ufffd"), ("\u202eleft", "\ufffdleft"), ("p < 0.05 & q", "p < 0.05 & q")]
)
def test_control_characters_become_marks_and_the_rest_stays(text: str, shown: str) -> None:
    assert escape(text) == shown
