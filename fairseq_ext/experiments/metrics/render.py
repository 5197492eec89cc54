"""Write a report: ``report.md``, a self-contained ``report.html``, figures and records."""

from __future__ import annotations

import base64
import functools
import html
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fairseq_ext.experiments.metrics.comparison import COMPARISONS_FILE, Comparison, comparison_table
from fairseq_ext.experiments.metrics.records import RECORDS_FILE, Record, Records, write_rows
from fairseq_ext.experiments.metrics.tables import Table, escape

if TYPE_CHECKING:
    from markdown_it import MarkdownIt

MARKDOWN_FILE, PAGE_FILE = "report.md", "report.html"


@dataclass(frozen=True)
class Plot:
    """A figure with a title above and a note below it."""

    name: str  # file name without ``.svg``
    title: str
    svg: str
    note: str = ""

    def markdown(self) -> str:
        """Return Markdown that links to the file of the figure."""
        title = escape(self.title)
        return "\n\n".join(filter(None, [f"### {title}", f"![{title}]({self.name}.svg)", escape(self.note)]))


Sections = Mapping[str, Sequence[Table | Plot | str]]  # by heading


@dataclass(frozen=True)
class Page:
    """A report."""

    title: str
    summary: str  # one sentence about the measurements
    sections: Sections
    comparisons: Sequence[Comparison] = ()  # shown in a separate section
    before_comparisons: int = 1  # number of sections before it
    headline: str = ""  # the result, in one sentence
    details: str = ""  # sentences below it
    records: Sequence[Record] = ()  # computed from others, such as perplexities from losses

    def markdown(self) -> str:
        """Return the report as Markdown, without empty sections. Figures are files in the same folder."""
        headline = f"**{escape(self.headline)}**" if self.headline else ""
        parts = [f"# {escape(self.title)}", *filter(None, [headline, escape(self.details)]), escape(self.summary)]
        sections = list(self.sections.items())
        if self.comparisons:
            sections.insert(self.before_comparisons, ("Comparisons", [comparison_table(self.comparisons)]))
        for heading, blocks in sections:
            if blocks:
                parts.append(f"## {escape(heading)}")
                parts += [block if isinstance(block, str) else block.markdown() for block in blocks]
        return "\n\n".join(parts) + "\n"


def write_report(folder: Path, page: Page, records: Records) -> None:
    """Write the report and its records, from which it can be rendered again."""
    text = page.markdown()
    plots = [part for parts in page.sections.values() for part in parts if isinstance(part, Plot)]
    files = {MARKDOWN_FILE: text, **{f"{plot.name}.svg": plot.svg for plot in plots}}
    files[PAGE_FILE] = render_page(text, page.title, page.summary, files)
    for name, content in files.items():
        (folder / name).write_text(content, encoding="utf-8", newline="\n")
    write_rows(folder / RECORDS_FILE, [*records, *page.records])
    if page.comparisons:
        write_rows(folder / COMPARISONS_FILE, page.comparisons)


def render_page(markdown: str, title: str, summary: str, pictures: Mapping[str, str]) -> str:
    """Render Markdown as a self-contained HTML page. ``pictures`` maps linked file names to SVG."""
    # Takes a tenth of a second to import.
    from jinja2 import StrictUndefined, Template

    text = Path(__file__).with_name("report.html.jinja").read_text(encoding="utf-8")
    template = Template(text, autoescape=True, undefined=StrictUndefined, trim_blocks=True)
    head, *sections = ("\n" + markdown).split("\n## ")
    bodies = [head, *(f"## {section}" for section in sections)]
    rendered = [_parser().render(body, {"pictures": pictures}) for body in bodies]
    return template.render(title=title, summary=summary, head=rendered[0], sections=rendered[1:])


@functools.cache
def _parser() -> MarkdownIt:
    # Takes a tenth of a second to import.
    from markdown_it import MarkdownIt

    # If an earlier step has loaded fairseq, all libraries log at the lowest level.
    logging.getLogger("markdown_it").setLevel(logging.WARNING)
    parser = MarkdownIt("commonmark", {"html": False}).enable("table")
    parser.add_render_rule("image", _image)
    parser.add_render_rule("table_open", _open_table)
    parser.add_render_rule("table_close", lambda *_: "</table></div>\n")
    return parser


def _open_table(_: Any, tokens: Sequence[Any], index: int, *__: Any) -> str:
    """Open a table, labelled with its title (the preceding text)."""
    title = next(_plain_text(token) for token in reversed(tokens[:index]) if token.type == "inline")
    return f'<div class="wide" {_scrolls(title)}><table>\n'


def _image(_: Any, tokens: Sequence[Any], index: int, __: Any, environment: Mapping[str, Any]) -> str:
    title = _plain_text(tokens[index])
    svg = environment["pictures"][tokens[index].attrs["src"]]
    data = base64.b64encode(svg.encode()).decode()
    return f'<span class="wide" {_scrolls(title)}><img src="data:image/svg+xml;base64,{data}" alt="{title}"></span>'


def _scrolls(title: str) -> str:
    """Return the attributes of an element that scrolls horizontally on narrow screens."""
    return f'role="region" tabindex="0" aria-label="{title}"'


def _plain_text(token: Any) -> str:
    """Return the text of a Markdown token without markup, escaped for an HTML attribute."""
    return html.escape("".join(child.content for child in token.children or ()))
