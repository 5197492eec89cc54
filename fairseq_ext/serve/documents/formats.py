"""Detection of document formats."""

from __future__ import annotations

import re
from pathlib import Path

from fairseq_ext.base.errors import InputError
from fairseq_ext.serve.documents import markup_documents as markup
from fairseq_ext.serve.documents import toolkit_documents
from fairseq_ext.serve.documents.catalogue import read_po, write_po
from fairseq_ext.serve.documents.document import Format
from fairseq_ext.serve.documents.json_documents import read_json, read_xcstrings

TEXT = "text"
FORMATS: dict[str, Format] = {
    TEXT: Format(markup.read_lines, markup.write_text),
    "po": Format(read_po, write_po),
    "xliff": Format(markup.read_xliff, markup.write_xml),
    "tmx": Format(markup.read_tmx, markup.write_xml),
    "html": Format(markup.read_html, markup.write_text),
    "subtitles": Format(markup.read_subtitles, markup.write_text),
    "json": Format(read_json, markup.write_text),
    "xcstrings": Format(read_xcstrings, markup.write_text),
    **toolkit_documents.FORMATS,
}
SUFFIXES = {
    ".po": "po", ".pot": "po", ".xlf": "xliff", ".xliff": "xliff", ".sdlxliff": "xliff", ".mqxliff": "xliff",
    ".tmx": "tmx", ".html": "html", ".htm": "html", ".xhtml": "html", ".srt": "subtitles", ".vtt": "subtitles",
    ".xcstrings": "xcstrings", ".strings": "strings", ".properties": "properties", ".resx": "resx", ".json": "json",
    ".arb": "json", ".yaml": "yaml", ".yml": "yaml", ".md": "markdown", ".markdown": "markdown", ".ts": "qt",
}  # fmt: skip
# Suffixes of other files that are not plain text, and what they are.
_OTHERS = {
    "a compiled catalogue": ("gmo", "mo", "qm"),
    "an office document": (
        "doc", "docx", "epub", "idml", "odp", "ods", "odt", "pdf", "ppt", "pptx", "rtf", "xls", "xlsx",
    ),
    "a table": ("csv", "tsv"),
    "markup or a program": (
        "adoc", "ass", "c", "cfg", "conf", "cpp", "css", "dita", "dtd", "ftl", "h", "ini", "java", "js", "jsx", "less",
        "lua", "php", "plist", "ps1", "py", "rb", "rc", "rst", "scss", "sql", "ssa", "stringsdict", "svg", "swift",
        "tbx", "tex", "toml", "tsx", "vue", "xml",
    ),
}  # fmt: skip
# Beginnings of files that are not plain text. Other binary files fail as invalid UTF-8.
_BEGINNINGS = (
    (rb"\s*(<\?xml|<!DOCTYPE|<html|<xliff|<tmx)", "XML or HTML"),
    (rb"PK\x03\x04", "a zip archive (such as an office document)"),
    (rb"\{\\rtf", "RTF"),
    (rb"%PDF-", "PDF"),
    (rb"\s*(\{\s*\"|\[\s*[{\"])", "JSON"),
    (rb"(\d+\s+|WEBVTT.*?)[\d:,.]+ --> [\d:,.]+", "subtitles"),
    (rb"(#.*\n|\s)*msgid\s*\"", "a gettext catalogue"),
    (rb"#!", "a program"),
)


def format_of(path: Path) -> str:
    """Return the format of a file by its suffix or beginning; other files are text.

    Raises:
        InputError: if the file is not plain text, and of no known format.
    """
    suffix = path.suffix.lower()
    with path.open("rb") as file:
        head = file.read(4096).removeprefix(b"\xef\xbb\xbf")
    if suffix == ".xml" and b"<resources" in head:
        return "android"
    if suffix == ".ts" and b"<TS" not in head:
        raise InputError(f"{path}: is no file of Qt Linguist; if it is text, give --input-format {TEXT}")
    if suffix in SUFFIXES:
        return SUFFIXES[suffix]
    kinds = [kind for kind, suffixes in _OTHERS.items() if suffix[1:] in suffixes]
    kinds += [kind for beginning, kind in _BEGINNINGS if re.match(beginning, head, re.IGNORECASE)]
    if kinds:
        choice = f"{', '.join(FORMATS)}; {TEXT} translates its lines as they are"
        raise InputError(f"{path}: is {kinds[0]}, not text; give --input-format {choice}")
    return TEXT
