"""A page, and the same as Markdown, over all reports below a folder: what each is of, and what came out, in a line."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import quote

from fairseq_ext.inputs.errors import InputError
from fairseq_ext.report.markdown import escape
from fairseq_ext.report.page import GENERATOR, make_environment

PAGE_FILE, MARKDOWN_FILE = "reports.html", "reports.md"
_TEMPLATE = "overview.html.jinja"
_HEAD = 8000  # characters, in which a page of ours has said what it is


@dataclass(frozen=True)
class Entry:
    """A report.

    Attributes:
        title: of its page.
        lead: what came out.
        page: where it is, relative to the folder.
        markdown: the same as Markdown; empty if there is none.
    """

    title: str
    lead: str
    page: str
    markdown: str = ""


def find_reports(folder: Path) -> list[Entry]:
    """All reports below a folder, by place; what steps are building, in hidden folders, is passed over.

    Raises:
        InputError: if there is no such folder, or no report in it.
    """
    if not folder.is_dir():
        raise InputError(f"{folder}: no such folder; name one with reports in it, such as runs")
    entries = [entry for path in sorted(_pages(folder)) if (entry := _read(folder, path))]
    if not entries:
        raise InputError(f"{folder}: holds no report; experiments and data-prep write them as report.html")
    return entries


def write_overview(folder: Path, entries: Sequence[Entry]) -> None:
    """Write the page and the Markdown into the folder that entries are relative to."""
    page = make_environment(Path(__file__).parent).get_template(_TEMPLATE).render(entries=entries)
    lines = [f"- [{escape(entry.title)}]({entry.markdown or entry.page}): {escape(entry.lead)}" for entry in entries]
    markdown = "\n".join(["# Reports", "", *lines, ""])
    for name, content in ((PAGE_FILE, page), (MARKDOWN_FILE, markdown)):
        partial = folder / f".{name}.partial"
        partial.write_text(content, encoding="utf-8", newline="\n")
        partial.replace(folder / name)


class _Head(HTMLParser):
    """Title and ``meta`` elements of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.title = ""
        self.meta: dict[str, str] = {}
        self._is_title = False
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self._is_title = tag == "title"
        if tag == "meta" and given.get("name"):
            self.meta[given["name"] or ""] = given.get("content") or ""

    def handle_endtag(self, tag: str) -> None:
        self._is_title = False

    def handle_data(self, data: str) -> None:
        self.title += data if self._is_title else ""


def _pages(folder: Path) -> Iterator[Path]:
    for place, names, files in os.walk(folder):
        names[:] = [name for name in names if not name.startswith(".")]
        yield from (Path(place, name) for name in files if name.endswith(".html"))


def _read(folder: Path, path: Path) -> Entry | None:
    """What a page says of itself; None if it is no report of ours, or this very overview."""
    try:
        with path.open(encoding="utf-8", errors="replace") as file:
            head = _Head(file.read(_HEAD))
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error})") from None
    if head.meta.get("generator") != GENERATOR or path == folder / PAGE_FILE:
        return None
    # Beside the page, or in a folder of its name.
    others = [path.with_suffix(".md"), path.with_suffix("") / "report.md"]
    links = [quote(each.relative_to(folder).as_posix()) for each in [path, *others] if each.is_file()]
    return Entry(head.title.strip(), head.meta.get("description", ""), *links[:2])
