"""Detection of document formats."""

from __future__ import annotations

import re
from pathlib import Path

from fairseq_ext.inputs.errors import InputError
from fairseq_ext.translators.catalogue import read_po, write_po
from fairseq_ext.translators.document import Document, Filling, Format
from fairseq_ext.translators.markup_documents import read_html, read_tmx, read_xliff, write_html, write_xml

TEXT = "text"
FORMATS: dict[str, Format] = {
    "po": Format(read_po, write_po),
    "xliff": Format(read_xliff, write_xml),
    "tmx": Format(read_tmx, write_xml),
    "html": Format(read_html, write_html),
}
_SUFFIXES = {
    ".po": "po", ".pot": "po", ".xlf": "xliff", ".xliff": "xliff", ".sdlxliff": "xliff", ".mqxliff": "xliff",
    ".tmx": "tmx", ".html": "html", ".htm": "html", ".xhtml": "html",
}  # fmt: skip
# Beginnings of files that are not plain text. Other binary files fail as invalid UTF-8.
_BEGINNINGS = (
    (rb"\s*(<\?xml|<!DOCTYPE|<html|<xliff|<tmx)", "XML or HTML"),
    (rb"PK\x03\x04", "a zip archive (such as an office document)"),
    (rb"\{\\rtf", "RTF"),
)


def document(path: Path, name: str, filling: Filling) -> Document:
    """Return a document of a format."""
    return Document(path, FORMATS[name], filling)


def format_of(path: Path) -> str:
    """Return the format of a file by its suffix; other files are text.

    Raises:
        InputError: if a file without a known suffix begins like a document that is not plain text.
    """
    if path.suffix.lower() in _SUFFIXES:
        return _SUFFIXES[path.suffix.lower()]
    with path.open("rb") as file:
        head = file.read(200).removeprefix(b"\xef\xbb\xbf")
    for beginning, kind in _BEGINNINGS:
        if re.match(beginning, head, re.IGNORECASE):
            raise InputError(
                f"{path}: is {kind}, not text; give --input-format {', '.join(FORMATS)}, or {TEXT} to "
                "translate its lines unchanged"
            )
    return TEXT
