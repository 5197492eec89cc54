"""Entries of gettext's .po files. Each is found by the grammar of gettext, and then parsed by polib.

polib reads files line by line, but gettext does not: keywords may share a line, and form feeds, indentation and
comments may stand anywhere between them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NoReturn

import polib

from fairseq_ext.inputs.errors import InputError

_STRING = r'"(?:[^"\\\n]|\\[^\n])*+"'
# Obsolete entries are written behind #~.
_BLANK = rf"[ \t\r\n\f\v]|\#~(?!\|)|\#(?!~(?!\|))[^\n]*+|domain[ \t]*+{_STRING}"
_GAP = f"(?:{_BLANK})*+"
_STRINGS = rf"(?:{_GAP}{_STRING})++"
_ENTRY = re.compile(
    rf"""(?P<before>{_GAP})(?:msgctxt{_STRINGS}{_GAP})?+msgid{_STRINGS}{_GAP}
    (?:msgid_plural{_STRINGS}(?P<plural>{_GAP}(?=msgstr))(?:{_GAP}msgstr\s*+\[\s*+\d\s*+\]{_STRINGS})++
    |(?P<single>)msgstr{_STRINGS})""",
    re.VERBOSE,
)
_TOKEN = re.compile(
    rf"#(?P<comment>(?!~(?!\|))[^\n]*)|(?P<keyword>msg[a-z_]+(?:\s*\[\s*\d\s*\])?)|(?P<string>{_STRING})"
)
_TOKENS = re.compile(rf"(?:{_BLANK}|msg[a-z_]+|\[\s*\d+\s*\]|{_STRING})*+")
# Escapes of gettext that polib does not know: \a, and ASCII characters by number.
_CODE = re.compile(r"\\(?:(?P<bell>a)|(?P<octal>[0-7]{1,3})|x(?P<hex>[0-9A-Fa-f]{1,2})|.)")
_CHARSET = re.compile(r"charset=([\w.:-]+)", re.IGNORECASE)


@dataclass(frozen=True)
class PoEntry:
    """An entry of a .po file.

    Attributes:
        text: the entry as written, with the blanks and comments before it.
        begin: where its first keyword begins in the text.
        translation: where its first ``msgstr`` begins in the text.
        content: its strings, flags and extracted comments.
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
        translation = found.end("plural") if found["single"] is None else found.start("single")
        begin = found.end("before")
        content = _parsed(found[0])
        content.obsolete = re.search(r"#~[ \t]*\Z", found["before"]) is not None
        yield PoEntry(text[place : found.end()], begin - place, translation - place, content)
        place = found.end()
    rest = _TOKENS.match(lines, place)
    assert rest is not None
    if not is_first and re.compile(f"{_GAP}\\Z").match(lines, place) is None:
        _refuse(lines, place, rest.end())


def _refuse(text: str, place: int, end: int) -> NoReturn:
    """Raise an error about the entry at a place, whose tokens are valid up to ``end``."""
    if end == len(text):
        found = re.compile(_GAP).match(text, place)
        end, reason = found.end() if found else place, "an entry has a msgid, and then a msgstr"
    else:
        reason = "a string has no end" if text[end] == '"' else f"{text[end : end + 20].split()[0]!r} is no keyword"
    raise InputError(f"line {text.count(chr(10), 0, end) + 1}: {reason}; correct it, as msgfmt demands")


class _Lines(list[str]):
    """Lines of a file. polib would also end lines within strings, at U+2028 and the like."""

    def splitlines(self) -> list[str]:
        return self


class _Entries(polib.POFile):
    """A file whose header stays among its entries."""

    def find(self, *_: Any, **__: Any) -> None:
        """Find nothing: polib would remove the header."""


def _parsed(text: str) -> polib.POEntry:
    """Parse an entry by polib, one keyword or string a line."""
    lines, keyword = [], ""
    for found in _TOKEN.finditer(text):
        if found["keyword"]:
            keyword = "".join(found["keyword"].split()) + " "
        elif found["string"] is not None:
            lines.append(keyword + _CODE.sub(_character, found["string"]))
            keyword = ""
        elif found["comment"][:1] in tuple(".,="):  # of the others, nothing is used; = is a flag of the workflow
            kind, comment = found["comment"][0].replace("=", ","), found["comment"][1:].strip()
            lines.append(f"#{kind} {comment}" if comment else "")
    [entry] = polib.pofile(_Lines(lines), klass=_Entries, encoding="utf-8")
    return entry


def _character(found: re.Match[str]) -> str:
    code = 7 if found["bell"] else int(found["octal"], 8) if found["octal"] else int(found["hex"] or "ff", 16)
    return polib.escape(chr(code)) if code < 128 else found[0]
