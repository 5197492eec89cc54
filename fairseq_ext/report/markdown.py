"""The report as Markdown, and the simple Markdown that a Reading may be written in."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from fairseq_ext.pages.page import visible
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
    Span,
    Table,
    TextBlock,
)

_ITEM = re.compile(r"\s{0,3}(?:([-*+])|\d{1,9}[.)])\s+(.*)")
_HEADING = re.compile(r"\s{0,3}#{1,6}\s+(.*?)\s*#*\s*$")
# Emphasis starts and ends beside text, as in Markdown; within words, underscores are just that.
_SPAN = re.compile(
    r"`(?P<code>[^`]+)`"
    r"|\*\*(?P<strong>[^\s*](?:[^*]*[^\s*])?)\*\*|(?<!\w)__(?P<strong2>[^\s_](?:[^_]*[^\s_])?)__(?!\w)"
    r"|\*(?P<em>[^\s*](?:[^*]*[^\s*])?)\*|(?<!\w)_(?P<em2>[^\s_](?:[^_]*[^\s_])?)_(?!\w)"
)
_MARKS = {"plain": "", "em": "*", "strong": "**"}


def parse_markdown(text: str) -> list[TextBlock]:
    """Read paragraphs, headings, lists and emphasis; whatever else there is stays text.

    Returns:
        Blocks of the kinds ``p``, ``h``, ``ul`` and ``ol``.
    """
    blocks: list[TextBlock] = []
    for kind, items in _read_blocks(text.splitlines()):
        blocks.append(TextBlock(kind, [parse_spans(item) for item in items]))
    return blocks


def parse_spans(text: str) -> list[Span]:
    """Split a line at its emphasis."""
    spans: list[Span] = []
    end = 0
    for match in _SPAN.finditer(text):
        style = match.lastgroup or "plain"
        spans += [("plain", text[end : match.start()]), (style.rstrip("2"), match[style])]
        end = match.end()
    return [span for span in [*spans, ("plain", text[end:])] if span[1]]


def render_markdown(report: Report) -> str:
    """The report as a Markdown file; pictures lie beside it."""
    parts = [f"# {_escape(report.title)}", _escape(report.lead)]
    for section in report.sections:
        parts += _section(section)
    parts += [_escape(note) for note in report.notes]
    return "\n\n".join(parts) + "\n"


def _section(section: Section) -> Iterator[str]:
    yield f"## {_escape(section.title)}"
    for block in section.blocks:
        yield from _block(block)


def _block(block: Block) -> Iterator[str]:
    match block:
        case Missing():
            yield f"**{_escape(block.title)}** – {_escape(block.reason)}."
        case TextBlock():
            yield _text(block)
        case Table():
            yield f"**{_escape(block.title)}**"
            yield _table(block)
            yield _below(block.below)
        case Picture():
            yield f"**{_escape(block.title)}**"
            yield f"![{_escape(block.title)}]({block.name}.svg)"
            yield _below(block.below)
        case Examples():
            yield f"**{_escape(block.title)}**"
            for example in block.examples:
                yield _escape(example.title)
                yield _grid(["", ""], [[name, text] for name, text in example.lines], "--")
            yield _below(block.below)


def _below(below: Below) -> str:
    signatures = [f"{_escape(metric)}: {_code(text)}." for metric, text in below.signatures.items()]
    files = " and ".join(map(_code, below.sources))
    return " ".join([*map(_escape, below.notes), *signatures, f"From {files}."])


def _table(table: Table) -> str:
    rows: list[list[str]] = []
    for heading, group in table.groups:
        if heading:
            rows.append([f"*{_escape(heading)}*", *[""] * len(table.columns)])
        rows += [_row(row) for row in group]
    if table.total is not None:
        rows.append([f"**{part}**" if part else "" for part in _row(table.total)])
    head = [table.corner, *table.columns]
    return _grid([_escape(name) for name in head], rows, "--" if table.is_text else "-:", is_escaped=True)


def _row(row: Row) -> list[str]:
    return [_escape(row.name), *map(_cell, row.cells)]


def _cell(cell: Cell) -> str:
    text = f"**{_escape(cell.text)}**" if cell.is_best else _escape(cell.text)
    return " ".join(part for part in (text, _escape(cell.note), cell.mark) if part)


def _grid(head: Sequence[str], rows: Iterable[Sequence[str]], rule: str, is_escaped: bool = False) -> str:
    def line(cells: Sequence[str]) -> str:
        return "| " + " | ".join(cells if is_escaped else map(_escape, cells)) + " |"

    return "\n".join([line(head), "|" + "|".join(["--", *[rule] * (len(head) - 1)]) + "|", *map(line, rows)])


def _text(block: TextBlock) -> str:
    lines = ["".join(map(_span, item)) for item in block.items]
    match block.kind:
        case "h":
            return f"### {lines[0]}"
        case "ul":
            return "\n".join(f"- {line}" for line in lines)
        case "ol":
            return "\n".join(f"{number}. {line}" for number, line in enumerate(lines, start=1))
    return lines[0]


def _span(span: Span) -> str:
    style, text = span
    if style == "code":
        return _code(text)
    # What escaping takes away at the ends sets the span apart from its neighbours.
    before, after = (" " if text != stripped else "" for stripped in (text.lstrip(), text.rstrip()))
    return f"{before}{_MARKS[style]}{_escape(text)}{_MARKS[style]}{after}"


def _code(text: str) -> str:
    return f"`{visible(' '.join(text.split())).replace('`', chr(39))}`"


def _escape(text: str) -> str:
    """Text that Markdown shows as it is, on one line."""
    text = visible(" ".join(text.split()))
    text = re.sub(r"[\\`*\[\]<>|&~$]", r"\\\g<0>", text)
    # Within words, underscores are text.
    text = re.sub(r"(?<![A-Za-z0-9])_|_(?![A-Za-z0-9])", r"\\_", text)
    return re.sub(r"^(#|[-+](?=\s)|=|\d+(?=[.)]\s))", _escape_start, text)


def _escape_start(match: re.Match[str]) -> str:
    start = match[0]
    return f"\\{start}" if not start[0].isdigit() else f"{start}\\"


def _read_blocks(lines: Iterable[str]) -> Iterator[tuple[str, list[str]]]:
    """Kind and items of every block."""
    kind, items = "", [""]
    for line in [*lines, ""]:
        item, heading = _ITEM.fullmatch(line), _HEADING.fullmatch(line)
        if kind and (not line.strip() or heading or (item and kind == "p")):
            yield kind, items
            kind = ""
        if heading:
            yield "h", [heading[1]]
        elif item:
            list_kind = "ul" if item[1] else "ol"
            if kind and kind != list_kind:
                yield kind, items
                kind = ""
            items = [*items, item[2]] if kind else [item[2]]
            kind = list_kind
        elif line.strip():
            # A line without a mark goes on with what is before it.
            items = [*items[:-1], f"{items[-1]} {line.strip()}"] if kind else [line.strip()]
            kind = kind or "p"
