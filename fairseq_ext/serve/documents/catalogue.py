"""gettext PO: fill each ``msgstr`` with the translation of its ``msgid``, add a comment, and mark it as fuzzy."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import IO

import polib

from fairseq_ext.base.errors import InputError
from fairseq_ext.serve.documents.document import Edit, Filling, Parts, check_language
from fairseq_ext.serve.runtime.pieces import split
from fairseq_ext.serve.runtime.tags import PLAIN
from fairseq_ext.text.gettext_entries import PoEntry, PoFile
from fairseq_ext.text.placeholders import ANY, dialect_of

_LINE = r"(?:^|(?<=[\r\n]))[ \t]*"
# Languages are codes, but some programs write their names.
_CODE = re.compile(r"[a-z]{2,3}(?:[-_@.].*)?", re.IGNORECASE)


def read_po(path: Path, filling: Filling) -> Parts:
    """Yield the parts of a catalogue."""
    file = PoFile.read(path.read_bytes())
    if _CODE.fullmatch(language := file.header_field("Language")):
        check_language(language, filling.languages[1], "Language")
    newline = next(re.finditer(r"\r?\n|\r", file.entries[0].text if file.entries else ""), ["\n"])[0]
    for entry in file.entries:
        yield _part(entry, filling, newline, file.header_field("Plural-Forms"))
    yield file.rest


def write_po(path: Path, parts: Iterable[str], file: IO[bytes]) -> None:
    """Write a catalogue in its encoding, or in UTF-8, with a new header, if it has characters outside it."""
    text, source = "".join(parts), PoFile.read(path.read_bytes())
    try:
        data = text.encode(source.encoding)
    except UnicodeEncodeError:
        assert source.header is not None  # a file without one is in UTF-8
        end = len(source.header.text)
        charset = re.compile(rf"(?<=charset=){re.escape(source.encoding)}")
        header = source.header.text[: source.header.begin] + charset.sub("UTF-8", text[source.header.begin : end])
        data = (header + text[end:]).encode("utf-8")
    file.write(data)


def _part(entry: PoEntry, filling: Filling, newline: str, plural_forms: str) -> str | Edit:
    content = entry.content
    is_filled = bool(content.msgstr or any(content.msgstr_plural.values()))
    dialect = dialect_of(content.flags)
    dialect = filling.dialect if dialect == ANY else dialect
    # Java's MessageFormat writes an apostrophe twice; a single one begins a quotation.
    messages = content.msgid + content.msgid_plural
    is_doubled = "java-format" in content.flags and not re.search("(?<!')'(?!')", messages)
    apostrophe = "''" if is_doubled else "'"
    texts = (text.replace(apostrophe, "'") for text in (content.msgid, content.msgid_plural) if text)
    pieces = tuple(split(text, PLAIN, dialect) for text in texts)
    if content.obsolete or (is_filled and not filling.every) or not any(text.texts for text in pieces):
        return entry.text
    if content.msgstr_plural and "INTEGER" in plural_forms:
        raise InputError("is a template without the plural forms of a language; create a .po with msginit first")
    return Edit(entry.text, pieces, partial(_write, entry, filling.system, newline, apostrophe))


def _write(entry: PoEntry, system: str, newline: str, apostrophe: str, texts: Sequence[str]) -> str:
    texts = [text.replace("'", apostrophe) for text in texts]
    forms = entry.content.msgstr_plural
    # The first form of several is the singular. A language with only one form uses the plural text.
    plural = {form: texts[0] if form == 0 and len(forms) > 1 else texts[-1] for form in forms}
    filled = (
        polib.POEntry(msgstr=texts[0], msgstr_plural=plural)
        .__unicode__(wrapwidth=0)
        .removeprefix('msgid ""\n')
        .rstrip("\n")
    )
    head, source = entry.text[: entry.begin], entry.text[entry.begin : entry.translation]
    head, indent = re.fullmatch(r"(.*?)([ \t]*)", head, re.DOTALL).groups()  # type: ignore[union-attr]
    if not re.search(rf"{_LINE}#,(?:[^\r\n]*,)?[ \t]*fuzzy[ \t]*(?:[,\r\n]|\Z)", head):
        head, is_flagged = re.subn(rf"({_LINE}#,)", r"\1 fuzzy,", head, count=1)
        if not is_flagged:
            head = _insert(head, r"#\|", f"#, fuzzy{newline}")
    head = _insert(head, "#[.:,|=]", f"# Machine translation by {system}{newline}")
    return head + indent + source + filled.replace("\n", newline)


def _insert(head: str, kind: str, line: str) -> str:
    """Insert a line before the first comment of a kind, or at the end."""
    comment = re.search(_LINE + kind, head)
    place = comment.start() if comment else len(head)
    return head[:place] + line + head[place:]
