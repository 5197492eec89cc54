"""Entries of gettext's .po files, which are found by the grammar of gettext, as entries of polib.

polib reads files line by line, but gettext does not: keywords may share a line, and form feeds, indentation and
comments may stand anywhere between them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NoReturn

import polib

from fairseq_ext.base.errors import InputError

_STRING = r'"(?:[^"\\\n]|\\(?:[abfnrtv\\"]|[0-7]{1,3}|x[0-9A-Fa-f]))*+"'
# Obsolete entries are written behind #~. Comments stand before an entry, and the previous msgid after all others.
_BLANK = r"(?:[ \t\r\n\f\v]|\#~(?!\|))*+"
_COMMENT = rf"\#(?![~|])[^\n]*+|domain[ \t]*+{_STRING}"
_PREVIOUS = rf"\#~?\|[ \t]*+(?:msgctxt|msgid_plural|msgid)?+[ \t]*+{_STRING}"
_STRINGS = rf"(?:{_BLANK}{_STRING})++"
_BEFORE = rf"{_BLANK}(?:(?:{_COMMENT}){_BLANK})*+(?:{_PREVIOUS}{_BLANK})*+"
_ENTRY = re.compile(
    rf"""(?P<before>{_BEFORE})(?:msgctxt{_STRINGS}{_BLANK})?+msgid{_STRINGS}
    (?:{_BLANK}msgid_plural{_STRINGS}(?P<plural>{_BLANK}(?=msgstr))(?:{_BLANK}msgstr\s*+\[\s*+\d\s*+\]{_STRINGS})++
    |(?P<single>{_BLANK}(?=msgstr))msgstr{_STRINGS})""",
    re.VERBOSE,
)
_END = re.compile(rf"{_BLANK}(?:(?:{_COMMENT}){_BLANK})*+\Z")
_TOKEN = re.compile(
    rf"#(?!~(?!\|))(?P<comment>[^\n]*)|domain\s*{_STRING}|(?P<keyword>msg[a-z_]+(?:\s*\[\s*\d\s*\])?)|(?P<string>{_STRING})"
)
_TOKENS = re.compile(rf"(?:[ \t\r\n\f\v]|{_COMMENT}|\#~|\||msg[a-z_]+|\[\s*\d+\s*\]|{_STRING})*+", re.VERBOSE)
# Escapes of gettext that polib does not know: \a, and ASCII characters by number.
_CODE = re.compile(r"\\(?:(?P<bell>a)|(?P<octal>[0-7]{1,3})|x(?P<hex>[0-9A-Fa-f]{1,2})|.)")
# A comment for translators within a msgid, as KDE and Firefox had them before msgctxt.
_INNER_COMMENT = re.compile(r"\A_: [^\n]*\n(?=.)")
_CHARSET = re.compile(r"charset=([\w.:-]+)", re.IGNORECASE)


@dataclass(frozen=True)
class PoEntry:
    """An entry of a .po file.

    Attributes:
        text: the entry as written, with the blanks and comments before it.
        begin: where its first keyword begins in the text.
        translation: where its first ``msgstr`` begins in the text.
        content: its strings, flags and extracted comments. A comment in the msgid (``_: …``) is left out.
    """

    text: str
    begin: int
    translation: int
    content: polib.POEntry


@dataclass(frozen=True)
class PoFile:
    """A .po file: joined, the texts of its entries and ``rest`` give the file."""

    entries: list[PoEntry]
    rest: str
    encoding: str

    @property
    def header(self) -> PoEntry | None:
        first = self.entries[0] if self.entries else None
        return first if first and not first.content.msgid and first.content.msgctxt is None else None

    @property
    def messages(self) -> list[PoEntry]:
        """Entries but the header."""
        return self.entries[1:] if self.header else self.entries

    def header_field(self, name: str) -> str:
        """Return a field of the header, empty if there is none."""
        lines = self.header.content.msgstr.split("\n") if self.header else []
        return next((line.partition(":")[2].strip() for line in lines if line.startswith(f"{name}:")), "")

    @classmethod
    def read(cls, data: bytes) -> PoFile:
        """Parse a file.

        Raises:
            InputError: if gettext does not accept the file. The message does not contain the file's name.
        """
        # The header is the first entry, and in ASCII.
        first = next(_entries(data.removeprefix(b"\xef\xbb\xbf").decode("latin-1"), is_first=True), None)
        found = _CHARSET.search(cls([first] if first else [], "", "").header_field("Content-Type"))
        name = found[1] if found and found[1] != "CHARSET" else "utf-8"  # templates have CHARSET
        try:
            text = data.decode(name)
        except LookupError:
            raise InputError(f"its encoding {name!r} is unknown; convert the file to UTF-8") from None
        except UnicodeDecodeError as error:
            raise InputError(f"is not valid {name} ({error.reason}); convert it to UTF-8") from None
        entries = list(_entries(text))
        return cls(entries, text[sum(len(entry.text) for entry in entries) :], name)


def _entries(text: str, *, is_first: bool = False) -> Iterator[PoEntry]:
    """Yield the entries of a text. With ``is_first``, what follows the first is not checked."""
    # Line feeds end comments; only old Macs ended lines by carriage returns.
    lines = text if "\n" in text else text.replace("\r", "\n")
    lines = lines.replace("\ufeff", " ", 1) if lines.startswith("\ufeff") else lines
    place = 0
    while found := _ENTRY.match(lines, place):
        translation = max(found.end("plural"), found.end("single"))
        begin = found.end("before")
        content = _parsed(found[0])
        content.obsolete = re.search(r"#~[ \t]*\Z", found["before"]) is not None
        yield PoEntry(text[place : found.end()], begin - place, translation - place, content)
        place = found.end()
    if not is_first and not _END.match(lines, place):
        _refuse(lines, place)


def _refuse(text: str, place: int) -> NoReturn:
    """Raise an error about the entry at a place."""
    end = _TOKENS.match(text, place).end()  # type: ignore[union-attr]
    if end == len(text) or text[end] == "#":
        end = re.compile(_BEFORE, re.VERBOSE).match(text, place).end()  # type: ignore[union-attr]
        reason = "an entry has comments, a msgid, and then a msgstr"
    elif text[end] == '"':
        reason = "a string has no end, or an invalid escape"
    else:
        reason = f"{text[end : end + 20].split()[0]!r} is no keyword"
    raise InputError(f"line {text.count(chr(10), 0, end) + 1}: {reason}; correct it, as msgfmt demands")


def _parsed(text: str) -> polib.POEntry:
    """Return the content of an entry. Of its comments, those that programs extracted are kept."""
    strings, comments, flags, keyword = {"msgid": ""}, [], [], ""
    for found in _TOKEN.finditer(text):
        if found["keyword"]:
            keyword = "".join(found["keyword"].split())
            strings[keyword] = ""
        elif found["string"]:
            strings[keyword] += polib.unescape(_CODE.sub(_character, found["string"][1:-1]))
        elif found["comment"] and found["comment"][0] in ",=":  # = is a flag of the workflow
            flags += [flag.strip() for flag in found["comment"][1:].split(",")]
        elif found["comment"] and found["comment"][0] == ".":
            comments.append(found["comment"][1:].strip())
    strings["msgid"] = _INNER_COMMENT.sub("", strings["msgid"])
    plural = {int(key[7:-1]): strings.pop(key) for key in list(strings) if "[" in key}
    return polib.POEntry(**strings, msgstr_plural=plural, comment="\n".join(comments), flags=flags)


def _character(found: re.Match[str]) -> str:
    code = 7 if found["bell"] else int(found["octal"], 8) if found["octal"] else int(found["hex"] or "ff", 16)
    return polib.escape(chr(code)) if code < 128 else found[0]
