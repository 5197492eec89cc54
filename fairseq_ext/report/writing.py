"""Reports of every kind as files: the page, the same as Markdown, its pictures; and the reader's own words in it."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fairseq_ext.engine.steps import Step
from fairseq_ext.inputs.errors import InputError
from fairseq_ext.report.content import Picture, Report, Section, Text
from fairseq_ext.report.differences import changed_words
from fairseq_ext.report.markdown import level_headings, render_html, render_markdown
from fairseq_ext.report.page import make_environment, visible
from fairseq_ext.report.pictures import marker, view_box
from fairseq_ext.report.records import RECORDS_FILE, write_records

if TYPE_CHECKING:
    import jinja2

MARKDOWN_FILE = "report.md"
PAGE_FILE = "report.html"
_TEMPLATE = "report.html.jinja"
_PICTURE_TEMPLATE = "picture.svg.jinja"


def step_of_report(
    work_dir: Path, files: Sequence[Path], reading: Path | None, options: Mapping[str, Any], make: Callable[[], Report]
) -> Step:
    """The step that writes ``report/`` of what there is, so make it when the other steps have run.

    Args:
        work_dir: of the experiment.
        files: those that it is made of, as far as they are there.
        reading: the file with words on the results, if any.
        options: what else it depends on.
        make: the report.
    """
    files = [path for path in files if path.is_file()]
    # Contents alone would not tell one part from another.
    names = [path.relative_to(work_dir).as_posix() if path.is_relative_to(work_dir) else path.name for path in files]
    return Step(
        work_dir / "report",
        [*files, *([reading] if reading else [])],
        {**options, "reading": reading is not None, "files": names},
        lambda folder: write_report(folder, make()),
    )


def write_report(folder: Path, report: Report) -> None:
    """Write the page, the Markdown, the pictures, and the records that they are made of."""
    _write(folder / MARKDOWN_FILE, render_markdown(report))
    _write(folder / PAGE_FILE, _templates().get_template(_TEMPLATE).render(report=report))
    for picture in (block for section in report.sections for block in section.blocks if isinstance(block, Picture)):
        write_picture(folder, picture)
    if report.records.all:
        write_records(folder / RECORDS_FILE, report.records)


def write_picture(folder: Path, picture: Picture) -> None:
    """Write a picture as ``NAME.svg``."""
    _write(folder / f"{picture.name}.svg", _templates().get_template(_PICTURE_TEMPLATE).render(picture=picture))


def find_reading(experiment: Path, key: str, name: str | None) -> Path | None:
    """The Markdown file with words on the results, if any.

    Args:
        experiment: its file, beside which this one lies.
        key: where in that file it is named, for messages.
        name: of the file.

    Raises:
        InputError: if the file is not there.
    """
    if name is None:
        return None
    path = experiment.parent / name
    if not path.is_file():
        raise InputError(f"{experiment}: {key}: no file {path}; write it, or take the key out")
    return path


def reading_sections(path: Path | None) -> list[Section]:
    """The section with these words; none without a file.

    Raises:
        InputError: if the file cannot be read.
    """
    if path is None:
        return []
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: cannot be read ({error})") from None
    lines = "\n".join(map(visible, text.expandtabs(4).splitlines()))
    return [Section("reading", "Reading", [Text(level_headings(lines).strip())])]


@functools.cache
def _templates() -> jinja2.Environment:
    environment = make_environment(Path(__file__).parent)
    environment.filters |= {"number": lambda value: f"{value:.1f}".removesuffix(".0"), "html": render_html}
    environment.filters |= {"marker": marker, "view_box": view_box, "changed_words": changed_words}
    return environment


def _write(path: Path, content: str) -> None:
    with path.open("w", encoding="utf-8", newline="\n") as file:
        file.write(content)
