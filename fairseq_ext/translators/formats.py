"""Which format a document has."""

from __future__ import annotations

import re
from pathlib import Path

from fairseq_ext.inputs.errors import InputError
from fairseq_ext.runtime.markup import attribute, name_of, with_attribute
from fairseq_ext.runtime.pieces import runs, split
from fairseq_ext.translators.catalogue import read_po
from fairseq_ext.translators.document import Edit, Filling, Format, Parts
from fairseq_ext.translators.tmx import read_tmx
from fairseq_ext.translators.xliff import read_xliff


def read_html(document: str, filling: Filling) -> Parts:
    """Yield the parts of a page: the text of its elements is translated; of attributes, ``lang`` of the page alone."""
    for run, end in runs(document):
        text = "".join(part for part, _ in run)
        pieces = split(text, markup=True)
        yield Edit(text, (pieces,), "".join) if pieces.texts else text
        is_page = name_of(end).lower() == "html" and attribute(end, "lang") is not None
        yield with_attribute(end, "lang", filling.languages[1]) if is_page else end


TEXT = "text"
FORMATS: dict[str, Format] = {"po": read_po, "xliff": read_xliff, "tmx": read_tmx, "html": read_html}
_SUFFIXES = {
    ".po": "po", ".pot": "po", ".xlf": "xliff", ".xliff": "xliff", ".sdlxliff": "xliff", ".mqxliff": "xliff",
    ".tmx": "tmx", ".html": "html", ".htm": "html", ".xhtml": "html",
}  # fmt: skip
# How files begin that are no text, and what they are; others are no UTF-8.
_BEGINNINGS = (
    (rb"\s*(<\?xml|<!DOCTYPE|<html|<xliff|<tmx)", "XML or HTML"),
    (rb"PK\x03\x04", "a zip archive, as are the documents of offices"),
    (rb"\{\\rtf", "RTF"),
)


def format_of(path: Path) -> str:
    """The format that a file's name says; text for all that does not look like something else."""
    if path.suffix.lower() in _SUFFIXES:
        return _SUFFIXES[path.suffix.lower()]
    with path.open("rb") as file:
        head = file.read(200).removeprefix(b"\xef\xbb\xbf")
    for beginning, kind in _BEGINNINGS:
        if re.match(beginning, head, re.IGNORECASE):
            raise InputError(
                f"{path}: is {kind}, not text; give --input-format {', '.join(FORMATS)}, or {TEXT} if its lines are "
                "to be translated as they are"
            )
    return TEXT
