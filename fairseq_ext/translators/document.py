"""Documents, split into parts to copy and parts to translate.

A format parses a text and yields strings, which are copied, and instances of :class:`Edit`. The texts of all edits are
collected and translated first. Then the document is parsed again and written with the translations.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from fairseq_ext.corpora.languages import base_language
from fairseq_ext.inputs.errors import InputError, shown
from fairseq_ext.runtime.pieces import Pieces

_BOMS = ((codecs.BOM_UTF8, "utf-8"), (codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be"))
_CHARSET = re.compile(rb"""<\?xml[^>]*encoding\s*=\s*["']([\w.:-]+)|charset\s*=\s*["']?([\w.:-]+)""", re.IGNORECASE)


@dataclass(frozen=True)
class Filling:
    """Settings for filling documents."""

    languages: tuple[str, str]
    system: str  # name of the translation system, written into the document
    every: bool = False  # whether existing translations are replaced


@dataclass(frozen=True)
class Edit:
    """A part of a document to be filled with translations."""

    original: str
    pieces: tuple[Pieces, ...]  # texts to translate, split into pieces
    write: Callable[[Sequence[str]], str]  # returns the new part, given the translated texts


Parts = Iterator[str | Edit]
Format = Callable[[str, Filling], Parts]


@dataclass(frozen=True)
class Document:
    """A file with its format."""

    path: Path
    format: Format
    filling: Filling

    def texts(self) -> Iterator[str]:
        """Yield the texts to translate, in order, without line breaks."""
        for part in self._parts():
            if isinstance(part, Edit):
                for pieces in part.pieces:
                    yield from pieces.texts

    def write(self, translations: Iterator[str], file: IO[bytes]) -> int:
        """Write the document, and return the number of parts filled. Parts with an empty translation stay unchanged."""
        encoding = encoding_of(self.path)
        filled = 0
        for part in self._parts():
            if isinstance(part, Edit):
                texts = [[next(translations) for _ in pieces.texts] for pieces in part.pieces]
                is_whole = all(all(own) for own in texts)
                filled += is_whole
                joined = [pieces.join(own) for pieces, own in zip(part.pieces, texts, strict=True)]
                part = part.write(joined) if is_whole else part.original
            # Characters missing from the encoding become character references: only XML and HTML are not in UTF-8.
            file.write(part.encode(encoding, "xmlcharrefreplace"))
        return filled

    def _parts(self) -> Parts:
        try:
            yield from self.format(_read(self.path), self.filling)
        except InputError as error:
            raise InputError(f"{self.path}: {error}") from None


def check_language(found: str, wanted: str, where: str) -> None:
    """Check that the language of a document is that of the system; regional variants match."""
    if base_language(found) != base_language(wanted):
        raise InputError(f"{where} is {shown(found)}, but the system translates {wanted}; choose another system")


def encoding_of(path: Path) -> str:
    """Return the encoding declared in a file by a byte order mark, XML or HTML; UTF-8 by default."""
    with path.open("rb") as file:
        head = file.read(4096)
    for mark, encoding in _BOMS:
        if head.startswith(mark):
            return encoding
    found = _CHARSET.search(head)
    name = (found[1] or found[2]).decode("ascii") if found else "utf-8"
    name = "utf-8" if name.upper() == "CHARSET" else name  # gettext templates have the placeholder CHARSET
    try:
        return codecs.lookup(name).name
    except LookupError:
        raise InputError(f"{path}: its encoding {name!r} is unknown; convert the file to UTF-8") from None


def _read(path: Path) -> str:
    """Read a text losslessly, including line ends: encoding it again gives the same bytes."""
    encoding = encoding_of(path)
    try:
        return path.read_bytes().decode(encoding)
    except UnicodeDecodeError as error:
        raise InputError(f"is not valid {encoding} ({error.reason}); convert it to UTF-8") from None
