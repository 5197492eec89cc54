"""A document as what is copied and what may be filled in.

A format reads a text and yields strings, which are copied, and :class:`Edit`. First all texts of the edits are
collected and translated, then the document is read again and written with the translations.
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
    """How documents are filled."""

    languages: tuple[str, str]
    system: str  # name of what translates, for the mark
    every: bool = False  # whether what is translated already is translated again


@dataclass(frozen=True)
class Edit:
    """A part of a document that may be filled in."""

    original: str
    pieces: tuple[Pieces, ...]  # of the texts that are translated for it
    write: Callable[[Sequence[str]], str]  # gives the new part of the translated texts


Parts = Iterator[str | Edit]
Format = Callable[[str, Filling], Parts]


@dataclass(frozen=True)
class Document:
    """A file in a format."""

    path: Path
    format: Format
    filling: Filling

    def texts(self) -> Iterator[str]:
        """All that is to be translated, in order, without line breaks."""
        for part in self._parts():
            if isinstance(part, Edit):
                for pieces in part.pieces:
                    yield from pieces.texts

    def write(self, translations: Iterator[str], file: IO[bytes]) -> int:
        """Write the document; where a translation is empty, the part stays as it is. Returns how many were filled."""
        encoding = encoding_of(self.path)
        filled = 0
        for part in self._parts():
            if isinstance(part, Edit):
                texts = [[next(translations) for _ in pieces.texts] for pieces in part.pieces]
                is_whole = all(all(own) for own in texts)
                filled += is_whole
                joined = [pieces.join(own) for pieces, own in zip(part.pieces, texts, strict=True)]
                part = part.write(joined) if is_whole else part.original
            # What the encoding lacks is a character reference in XML and HTML; other formats are in UTF-8.
            file.write(part.encode(encoding, "xmlcharrefreplace"))
        return filled

    def _parts(self) -> Parts:
        try:
            yield from self.format(_read(self.path), self.filling)
        except InputError as error:
            raise InputError(f"{self.path}: {error}") from None


def check_language(found: str, wanted: str, where: str) -> None:
    """Check that a document is in a language of a system."""
    if base_language(found) != base_language(wanted):
        raise InputError(f"{where} is {shown(found)}, and the system has {wanted}; choose another system")


def encoding_of(path: Path) -> str:
    """The encoding that a file names, or UTF-8."""
    with path.open("rb") as file:
        head = file.read(4096)
    for mark, encoding in _BOMS:
        if head.startswith(mark):
            return encoding
    found = _CHARSET.search(head)
    name = (found[1] or found[2]).decode("ascii") if found else "utf-8"
    name = "utf-8" if name.upper() == "CHARSET" else name  # of a gettext template
    try:
        return codecs.lookup(name).name
    except LookupError:
        raise InputError(f"{path}: its encoding {name!r} is unknown; convert the file to UTF-8") from None


def _read(path: Path) -> str:
    """The text of a file, so that it has the same bytes when it is encoded again: line ends and all."""
    encoding = encoding_of(path)
    try:
        return path.read_bytes().decode(encoding)
    except UnicodeDecodeError as error:
        raise InputError(f"is not all in {encoding} ({error.reason}); convert it to UTF-8") from None
