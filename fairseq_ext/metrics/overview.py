"""An index of all reports below a folder: ``reports.md`` and ``reports.html``, a line for each."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from fairseq_ext.inputs.errors import InputError
from fairseq_ext.metrics.render import MARKDOWN_FILE, PAGE_FILE, render_page

INDEX_FILE, INDEX_MARKDOWN_FILE = "reports.html", "reports.md"
_HEAD = 8000  # characters, which hold title and summary


@dataclass(frozen=True)
class Entry:
    """A report.

    Attributes:
        title: as Markdown.
        summary: as Markdown.
        folder: relative to that of the index, as a link.
    """

    title: str
    summary: str
    folder: str

    def markdown(self) -> str:
        """A line of the index."""
        page, text = f"{self.folder}/{PAGE_FILE}", f"{self.folder}/{MARKDOWN_FILE}"
        return f"- [{self.title}]({page}) ([Markdown]({text})): {self.summary}"


def find_reports(folder: Path) -> list[Entry]:
    """All reports below a folder, sorted by path, without hidden folders, in which steps build."""
    if not folder.is_dir():
        raise InputError(f"{folder}: no such folder; give one with reports, such as runs")
    entries = [_read(folder, each) for each in sorted(_folders(folder))]
    if not entries:
        raise InputError(f"{folder}: has no reports; experiments write {PAGE_FILE} and {MARKDOWN_FILE}")
    return entries


def write_index(folder: Path, entries: Sequence[Entry]) -> None:
    """Write the index into the folder that entries are relative to."""
    text = "\n".join(["# Reports", "", *(entry.markdown() for entry in entries), ""])
    for name, content in ((INDEX_MARKDOWN_FILE, text), (INDEX_FILE, render_page(text, "Reports"))):
        partial = folder / f".{name}.partial"
        partial.write_text(content, encoding="utf-8", newline="\n")
        partial.replace(folder / name)


def _folders(folder: Path) -> Iterator[Path]:
    for place, names, files in os.walk(folder):
        names[:] = [name for name in names if not name.startswith(".")]
        if {MARKDOWN_FILE, PAGE_FILE} <= set(files):
            yield Path(place)


def _read(folder: Path, place: Path) -> Entry:
    """Title and summary of a report: the first two paragraphs of its Markdown."""
    try:
        with (place / MARKDOWN_FILE).open(encoding="utf-8", errors="replace") as file:
            title, summary, *_ = [*file.read(_HEAD).split("\n\n", 2), "", ""]
    except OSError as error:
        raise InputError(f"{place / MARKDOWN_FILE}: cannot be read ({error})") from None
    return Entry(title.removeprefix("# ").strip(), summary.strip(), quote(place.relative_to(folder).as_posix()))
