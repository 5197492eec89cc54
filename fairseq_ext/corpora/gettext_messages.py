"""The messages of gettext catalogues, source (.po) and compiled (.mo), one after the other.

Written here because a catalogue may be made to harm: polib, which many use, takes a text that is the path of another
catalogue for that one, needs time quadratic in a message's lines, holds all messages at once, and reads those of a
compiled catalogue however often they share their bytes.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

# After any mark of obsolete messages: a keyword or none, and a string in quotes.
_STRING = re.compile(r'(?:(msgctxt|msgid_plural|msgid|msgstr(?:\[\d+\])?)\s*)?"((?:[^"\\]++|\\.)*+)"')
_ESCAPED = re.compile(r"\\(.)")
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "v": "\v", "b": "\b", "f": "\f"}
# By the keyword of a string, those of the strings that it may follow.
_FOLLOWS = {
    "msgctxt": (None,),
    "msgid": (None, "msgctxt"),
    "msgid_plural": ("msgid",),
    "msgstr": ("msgid",),
    "msgstr[": ("msgid_plural", "msgstr["),
}
_CHARSET = re.compile(rb"charset=([\w.:-]+)", re.IGNORECASE)
# Codecs of Python that no catalogue is written in; the first two take time quadratic in the length.
_NO_CHARSETS = ("idna", "punycode", "raw-unicode-escape", "unicode-escape", "utf-7")
# A .mo begins with its magic number, in either byte order.
_BYTE_ORDERS = {b"\xde\x12\x04\x95": "<", b"\x95\x04\x12\xde": ">"}


class Message(NamedTuple):
    """A message, its translation (empty if it has none), and what a catalogue says of them."""

    text: str
    translation: str
    comment: str = ""
    is_fuzzy: bool = False
    is_obsolete: bool = False
    is_plural: bool = False


def read_source(data: bytes) -> Iterator[Message]:
    """Yield the messages of a .po, without its header.

    Raises:
        ValueError: if the text is no catalogue (naming the line) or not in its charset.
        LookupError: if its charset is not known.
    """
    text = _decode(data, data).removeprefix("\ufeff")
    builder = _Builder()
    number = 0
    for number, line in enumerate(_lines(text), start=1):
        yield from builder.take(line.strip(), number)
    yield from builder.end(number)


def read_compiled(data: bytes) -> Iterator[Message]:
    """Yield the messages of a .mo, without its header.

    Raises:
        EOFError: if it does not begin like one, names bytes beyond its end, or more text than it holds.
        ValueError: if it is of an unknown version, or not in its charset.
        LookupError: if its charset is not known.
    """
    header = next((translation for text, translation in _compiled_strings(data) if not text), b"")
    for text, translation in _compiled_strings(data):
        if text:
            singular, *plural = text.split(b"\0")
            context, mark, message = singular.partition(b"\4")
            yield Message(
                _decode(message if mark else context, header), _decode(translation, header), is_plural=bool(plural)
            )


class _Builder:
    """Puts a .po's lines together to messages."""

    def __init__(self) -> None:
        self._clear()

    def take(self, line: str, number: int) -> Iterator[Message]:
        """Take a line without white space around it, and yield the message that ends before it, if one does."""
        is_obsolete = line.startswith("#~")
        if is_obsolete:
            line = line[2:].lstrip()
        if not line or line.startswith("|"):
            return
        if line.startswith("#"):
            yield from self._finish()
            self._comment(line)
            return
        match = _STRING.fullmatch(line)
        if match is None:
            raise ValueError(f"line {number}: is neither a comment nor a keyword with a string in quotes")
        if match[1] in ("msgctxt", "msgid"):
            yield from self._finish()
        self._string(match[1], match[2], number)
        self._is_obsolete |= is_obsolete

    def end(self, number: int) -> Iterator[Message]:
        """Yield the last message, if there is one."""
        yield from self._finish()
        if self._last is not None:
            raise ValueError(f"line {number}: the text ends within a message")

    def _clear(self) -> None:
        self._strings: dict[str, list[str]] = {}
        self._comments: list[str] = []
        self._last: str | None = None
        self._is_fuzzy = self._is_obsolete = False

    def _comment(self, line: str) -> None:
        if line.startswith("#."):
            self._comments.append(line[2:].strip())
        elif line.startswith(("#,", "#=")):
            self._is_fuzzy |= "fuzzy" in (flag.strip() for flag in line[2:].split(","))

    def _string(self, keyword: str | None, text: str, number: int) -> None:
        if keyword is not None:
            name = keyword[: len("msgstr[")] if keyword.startswith("msgstr") else keyword
            if self._last not in _FOLLOWS[name]:
                raise ValueError(f"line {number}: {keyword} has no place here")
            self._last = name
        elif self._last is None:
            raise ValueError(f"line {number}: a string without a keyword")
        self._strings.setdefault(self._last, []).append(text)

    def _finish(self) -> Iterator[Message]:
        """Yield the message, if it has its translation, and begin another."""
        if self._last not in ("msgstr", "msgstr["):
            return
        text, is_plural = self._text("msgid"), self._last == "msgstr["
        if text:
            yield Message(
                text,
                self._text(self._last),
                "\n".join(self._comments),
                self._is_fuzzy,
                self._is_obsolete,
                is_plural,
            )
        self._clear()

    def _text(self, name: str) -> str:
        return _ESCAPED.sub(lambda match: _ESCAPES.get(match[1], match[1]), "".join(self._strings[name]))


def _lines(text: str) -> Iterator[str]:
    start = 0
    while (end := text.find("\n", start)) >= 0:
        yield text[start:end]
        start = end + 1
    yield text[start:]


def _compiled_strings(data: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Yield every message and translation of a .mo."""
    order = _BYTE_ORDERS.get(data[:4])
    if order is None:
        raise EOFError("no compiled catalogue begins so")
    if len(data) < 20:
        raise _beyond_its_end()
    version, count, *tables = np.frombuffer(data, f"{order}u4", count=4, offset=4).tolist()
    if version >> 16 > 1:
        raise ValueError(f"version {version >> 16} is not known")
    if max(tables) + 8 * count > len(data):
        raise _beyond_its_end()
    # Of each message and of each translation, its length and where it begins; a null byte follows it.
    places = [np.frombuffer(data, f"{order}u4", 2 * count, table).reshape(-1, 2).astype(np.int64) for table in tables]
    if any((table.sum(axis=1) >= len(data)).any() for table in places):
        raise _beyond_its_end()
    if sum(table[:, 0].sum() for table in places) > len(data):
        raise EOFError("its messages share bytes: it names more text than it holds")
    for (length, start), (other_length, other_start) in zip(*places, strict=True):
        yield data[start : start + length], data[other_start : other_start + other_length]


def _beyond_its_end() -> EOFError:
    return EOFError("it names bytes beyond its end")


def _decode(data: bytes, header: bytes) -> str:
    """Decode text by the charset that a catalogue's header names; without one, UTF-8."""
    match = _CHARSET.search(header)
    charset = match[1].decode("ascii") if match else "utf-8"
    if codecs.lookup(charset).name in _NO_CHARSETS:
        raise LookupError(f"{charset} is no charset of catalogues")
    return data.decode(charset)
