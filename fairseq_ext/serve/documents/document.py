"""Documents, split into parts to copy and parts to translate.

A format reads a file and yields strings, which are copied, and instances of :class:`Edit`. The texts of all edits are
collected and translated first. Then the document is read again and written with the translations. Both are lists of
texts, which may have several lines.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, NamedTuple

from fairseq_ext.base.errors import InputError, naming, shown
from fairseq_ext.serve.runtime.pieces import Pieces, split
from fairseq_ext.serve.runtime.tags import PLAIN, Syntax
from fairseq_ext.text.languages import is_same_language
from fairseq_ext.text.placeholders import ANY

_END = object()


@dataclass(frozen=True)
class Filling:
    """Settings for filling documents."""

    languages: tuple[str, str]
    system: str  # name of the translation system, written into the document
    every: bool = False  # whether existing translations are replaced
    dialect: str = ANY  # dialect of placeholders, where a format does not say it

    @property
    def code(self) -> str:
        """The target language as most formats write it, ``pt-BR``."""
        return self.languages[1].replace("_", "-")


@dataclass(frozen=True)
class Edit:
    """A part of a document to be filled with translations."""

    original: str
    pieces: tuple[Pieces, ...]  # texts to translate, split into pieces
    write: Callable[[Sequence[str]], str]  # returns the new part, given the translated texts


Parts = Iterator[str | Edit]


def edit(
    text: str, filling: Filling, syntax: Syntax = PLAIN, write: Callable[[Sequence[str]], str] = "".join
) -> str | Edit:
    """Return the part that ``write`` writes for a text. It is copied if it has no words."""
    pieces, original = split(text, syntax, filling.dialect), write([text])
    return Edit(original, (pieces,), write) if pieces.texts else original


class Format(NamedTuple):
    """How to read and write the files of a format. Errors do not name the file."""

    read: Callable[[Path, Filling], Parts]
    write: Callable[[Path, Iterable[str], IO[bytes]], None]  # given the source and the new parts


@dataclass
class Document:
    """A file with its format."""

    path: Path
    format: Format
    filling: Filling
    filled: int = field(default=0, init=False)  # number of parts filled when the document was written

    def texts(self) -> Iterator[tuple[str, str]]:
        """Yield the texts to translate, in order, each with its dialect of placeholders."""
        with naming(self.path):
            for part in self.format.read(self.path, self.filling):
                if isinstance(part, Edit):
                    for pieces in part.pieces:
                        yield from ((text, pieces.dialect) for text in pieces.texts)

    def write(self, translations: Iterable[str], file: IO[bytes]) -> None:
        """Write the document. Parts with an empty translation stay unchanged.

        Raises:
            InputError: if there are more or fewer translations than texts.
        """
        left = iter(translations)
        with naming(self.path):
            self.format.write(self.path, self._parts(left), file)
            if next(left, _END) is not _END:
                raise _changed()

    def _parts(self, translations: Iterator[str]) -> Iterator[str]:
        self.filled = 0
        for part in self.format.read(self.path, self.filling):
            if isinstance(part, str):
                yield part
                continue
            texts = [[next(translations, None) for _ in pieces.texts] for pieces in part.pieces]
            if any(None in translated for translated in texts):
                raise _changed()
            is_whole = all(map(all, texts))
            self.filled += is_whole
            joined = [pieces.join(translated) for pieces, translated in zip(part.pieces, texts, strict=True)]  # type: ignore[arg-type]
            yield part.write(joined) if is_whole else part.original


def _changed() -> InputError:
    return InputError("has other texts than were translated: it changed meanwhile; run the command again")


def check_language(code: str, wanted: str, where: str) -> None:
    """Check that the language of a document is that of the system; regional variants match."""
    if not is_same_language(code, wanted):
        raise InputError(f"{where} is {shown(code)}, but the system translates {wanted}; choose another system")
