"""The report as Markdown, and what a reader wrote in Markdown as HTML."""

from __future__ import annotations

import functools
import logging
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from fairseq_ext.report.content import (
    Below,
    Block,
    Cell,
    Examples,
    Missing,
    Picture,
    Report,
    Row,
    Section,
    Table,
    Text,
)
from fairseq_ext.report.page import visible

if TYPE_CHECKING:
    from markdown_it import MarkdownIt

_HEADING = "###"  # of what stands in a section, whose own title is a ##


def render_html(markdown: str) -> str:
    """CommonMark as HTML; HTML in it stays text, and pictures become links."""
    return _parser().render(markdown)


def level_headings(markdown: str) -> str:
    """CommonMark with its headings of the level that they have in a section."""
    lines = markdown.splitlines()
    tokens = _parser().parse(markdown)
    # From the end, because a heading that is underlined loses a line.
    for opening, text in reversed([*zip(tokens, tokens[1:], strict=False)]):
        if opening.type == "heading_open" and opening.level == 0 and opening.map:
            lines[slice(*opening.map)] = [f"{_HEADING} {' '.join(text.content.splitlines())}"]
    return "\n".join(lines)


@functools.cache
def _parser() -> MarkdownIt:
    # Imported here because every command of the package would wait for it.
    from markdown_it import MarkdownIt

    # With fairseq loaded by a step before, every library says all that it could.
    logging.getLogger("markdown_it").setLevel(logging.WARNING)
    return MarkdownIt("commonmark", {"html": False}).disable("image")


def render_markdown(report: Report) -> str:
    """The report as a Markdown file; pictures lie beside it."""
    parts = [f"# {escape(report.title)}", escape(report.lead), *map(escape, report.notes)]
    for section in report.sections:
        parts += _section(section)
    return "\n\n".join(parts) + "\n"


def _section(section: Section) -> Iterator[str]:
    yield f"## {escape(section.title)}"
    for block in section.blocks:
        yield from _block(block)


def _block(block: Block) -> Iterator[str]:
    match block:
        case Missing():
            yield f"**{escape(block.title)}** – {escape(block.reason)}."
        case Text():
            yield block.markdown
        case Table():
            yield f"**{escape(block.title)}**"
            yield _table(block)
            yield _below(block.below)
        case Picture():
            yield f"**{escape(block.title)}**"
            yield f"![{escape(block.title)}]({block.name}.svg)"
            yield _below(block.below)
        case Examples():
            yield f"**{escape(block.title)}**"
            for example in block.examples:
                yield escape(example.title)
                yield _grid(["", ""], [[", ".join(names), text] for names, text in example.versions], "--")
            yield _below(block.below)


def _below(below: Below) -> str:
    signatures = [f"{escape(metric)}: {_code(text)}." for metric, text in below.signatures.items()]
    files = " and ".join(map(_code, below.patterns))
    return " ".join([*map(escape, below.notes), *signatures, f"From {files}."])


def _table(table: Table) -> str:
    rows: list[list[str]] = []
    for heading, group in table.groups:
        if heading:
            rows.append([f"*{escape(heading)}*", *[""] * len(table.columns)])
        rows += [_row(row) for row in group]
    if table.total is not None:
        rows.append([f"**{part}**" if part else "" for part in _row(table.total)])
    head = [table.corner, *table.columns]
    return _grid([escape(name) for name in head], rows, "--" if table.is_text else "-:", is_escaped=True)


def _row(row: Row) -> list[str]:
    return [escape(row.name), *map(_cell, row.cells)]


def _cell(cell: Cell) -> str:
    text = f"**{escape(cell.text)}**" if cell.is_best else escape(cell.text)
    return " ".join(part for part in (text, escape(cell.note), cell.mark) if part)


def _grid(head: Sequence[str], rows: Iterable[Sequence[str]], rule: str, is_escaped: bool = False) -> str:
    def line(cells: Sequence[str]) -> str:
        return "| " + " | ".join(cells if is_escaped else map(escape, cells)) + " |"

    return "\n".join([line(head), "|" + "|".join(["--", *[rule] * (len(head) - 1)]) + "|", *map(line, rows)])


def _code(text: str) -> str:
    return f"`{visible(' '.join(text.split())).replace('`', chr(39))}`"


def escape(text: str) -> str:
    """Text that Markdown shows as it is, on one line."""
    text = visible(" ".join(text.split()))
    text = re.sub(r"[\\`*\[\]<>|&~$]", r"\\\g<0>", text)
    # Within words, underscores are text.
    text = re.sub(r"(?<![A-Za-z0-9])_|_(?![A-Za-z0-9])", r"\\_", text)
    return re.sub(r"^(#|[-+](?=\s)|=|\d+(?=[.)]\s))", _escape_start, text)


def _escape_start(match: re.Match[str]) -> str:
    start = match[0]
    return f"\\{start}" if not start[0].isdigit() else f"{start}\\"
