"""An index of all reports below a folder: ``reports.md`` and ``reports.html``, a line for each."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

from fairseq_ext.engine.steps import atomic_write
from fairseq_ext.inputs.errors import InputError
from fairseq_ext.metrics.render import MARKDOWN_FILE, PAGE_FILE, render_page

INDEX_FILE, INDEX_MARKDOWN_FILE = "reports.html", "reports.md"
_HEAD = 8000  # characters, which hold title and summary


def write_index(folder: Path) -> Path:
    """Write the index of the reports below a folder, sorted by path, and return the path of its page."""
    if not folder.is_dir():
        raise InputError(f"{folder}: no such folder; give one with reports, such as runs")
    lines = [_line_of(place, folder) for place in sorted(_reports_below(folder))]
    if not lines:
        raise InputError(f"{folder}: has no reports; experiments write {PAGE_FILE} and {MARKDOWN_FILE}")
    text = "\n".join(["# Reports", "", *lines, ""])
    for name, content in ((INDEX_MARKDOWN_FILE, text), (INDEX_FILE, render_page(text, "Reports"))):
        with atomic_write(folder / name) as temporary:
            temporary.write_text(content, encoding="utf-8", newline="\n")
    return folder / INDEX_FILE


def _reports_below(folder: Path) -> Iterator[Path]:
    """The folders of reports, without hidden ones, in which steps build."""
    for place, names, files in os.walk(folder):
        names[:] = [name for name in names if not name.startswith(".")]
        if {MARKDOWN_FILE, PAGE_FILE} <= set(files):
            yield Path(place)


def _line_of(place: Path, folder: Path) -> str:
    """A link to a report, and its summary: the first two paragraphs of its Markdown are title and summary."""
    try:
        with (place / MARKDOWN_FILE).open(encoding="utf-8", errors="replace") as file:
            title, summary, *_ = [*file.read(_HEAD).split("\n\n", 2), "", ""]
    except OSError as error:
        raise InputError(f"{place / MARKDOWN_FILE}: cannot be read ({error})") from None
    title, link = title.removeprefix("# ").strip(), quote(place.relative_to(folder).as_posix())
    return f"- [{title}]({link}/{PAGE_FILE}) ([Markdown]({link}/{MARKDOWN_FILE})): {summary.strip()}"
