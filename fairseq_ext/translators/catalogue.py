"""gettext PO: fill each ``msgstr`` with the translation of its ``msgid``, add a comment, and mark it as fuzzy."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import partial

import polib

from fairseq_ext.inputs.errors import InputError
from fairseq_ext.runtime.pieces import split
from fairseq_ext.translators.document import Edit, Filling, Parts, check_language

_TRANSLATION = re.compile(r"msgstr(?:\[(\d+)\])?")


def read_po(text: str, filling: Filling) -> Parts:
    """Yield the parts of a catalogue."""
    try:
        catalogue = polib.pofile(text.replace("\r\n", "\n").removeprefix("\ufeff") + "\n")
    except (OSError, ValueError, UnicodeError) as error:
        raise InputError(f"is not a valid gettext catalogue ({error}); correct it") from None
    if catalogue.metadata.get("Language"):
        check_language(catalogue.metadata["Language"], filling.languages[1], "Language")
    lines = re.split(r"(?<=\n)", text)
    end = 0
    entries = sorted(catalogue, key=lambda entry: entry.linenum)
    ends = [*(entry.linenum - 1 for entry in entries[1:]), len(lines)]
    for entry, start_of_next in zip(entries, ends, strict=False):
        start = entry.linenum - 1
        yield "".join(lines[end:start])
        end = start_of_next
        yield _entry(entry, lines[start:end], filling)
    yield "".join(lines[end:])


def _entry(entry: polib.POEntry, lines: list[str], filling: Filling) -> str | Edit:
    original = "".join(lines)
    is_filled = bool(entry.msgstr or any(entry.msgstr_plural.values()))
    if entry.obsolete or (is_filled and not filling.every):
        return original
    pieces = tuple(split(text) for text in (entry.msgid, entry.msgid_plural) if text)
    if not pieces or not any(each.texts for each in pieces):
        return original
    return Edit(original, pieces, partial(_write, lines, filling.system))


def _write(lines: list[str], system: str, texts: Sequence[str]) -> str:
    newline = "\r\n" if lines[0].endswith("\r\n") else "\n"
    written = [f"# Machine translation by {system}{newline}"]
    is_flagged = False
    is_replaced = False
    forms = sum(bool(_TRANSLATION.match(line)) for line in lines)
    for line in lines:
        found = _TRANSLATION.match(line)
        if line.startswith("#,"):
            is_flagged = True
            line = line if "fuzzy" in line else line.replace("#,", "#, fuzzy,", 1)
        elif line.startswith(("#|", "msg")) and not is_flagged:
            is_flagged = True
            written.append(f"#, fuzzy{newline}")
        if found:
            is_replaced = True
            # The first form of several is the singular. A language with only one form uses the plural text.
            text = texts[0] if found[1] == "0" and forms > 1 or found[1] is None else texts[-1]
            written.append(newline.join(_strings(found[0], text)) + newline)
        elif not (is_replaced and line.startswith('"')):
            is_replaced = False
            written.append(line)
    return "".join(written)


def _strings(keyword: str, text: str) -> list[str]:
    """Return a string in PO syntax, with one PO line per line of text."""
    first, *rest = [f'"{polib.escape(line)}"' for line in re.split(r"(?<=\n)(?!\Z)", text)]
    return [f'{keyword} ""', first, *rest] if rest else [f"{keyword} {first}"]
