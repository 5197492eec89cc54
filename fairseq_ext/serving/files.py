"""Translation of uploaded files: the texts of a document, and the document with their translations."""

from __future__ import annotations

import io
import re
import secrets
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Protocol

from fairseq_ext.corpora.placeholders import ANY
from fairseq_ext.inputs.errors import InputError, line_of
from fairseq_ext.serving.body import Upload
from fairseq_ext.serving.refusals import RefusedError
from fairseq_ext.translators import formats
from fairseq_ext.translators.document import Document, Filling

_PLAIN = ".txt"
SUFFIXES = (_PLAIN, *formats.SUFFIXES)
_MOST_KEPT, _MOST_BYTES = 64, 256 << 20  # translated files that wait to be fetched


class Translatable(Protocol):
    """A file whose texts are translated."""

    def texts(self) -> Sequence[tuple[str, str]]:
        """Return the texts to translate, each with its dialect of placeholders."""

    def filled(self, translations: Sequence[str]) -> bytes:
        """Return the file with the translations."""


class _Lines:
    """Plain text, whose lines are translated."""

    def __init__(self, data: bytes) -> None:
        try:
            self._lines = data.decode("utf-8-sig").split("\n")
        except UnicodeDecodeError:
            raise RefusedError(422, "the file is not UTF-8; convert it") from None

    def texts(self) -> Sequence[tuple[str, str]]:
        return [(line, ANY) for line in self._lines]

    def filled(self, translations: Sequence[str]) -> bytes:
        return "\n".join(translations).encode("utf-8")


class _Filled:
    """A document in a file."""

    def __init__(self, document: Document) -> None:
        self._document = document

    def texts(self) -> Sequence[tuple[str, str]]:
        return list(self._document.texts())

    def filled(self, translations: Sequence[str]) -> bytes:
        file = io.BytesIO()
        self._document.write(translations, file)
        return file.getvalue()


@contextmanager
def opened(upload: Upload, filling: Filling) -> Iterator[Translatable]:
    """Give the content of a file, which exists as long as the context.

    Raises:
        RefusedError: if it has no format that is supported.
    """
    with TemporaryDirectory() as folder:
        path = Path(folder) / plain_name(upload.name)
        path.write_bytes(upload.data)
        with _refused(path):
            kind = _kind_of(path)
            yield _Lines(upload.data) if kind == formats.TEXT else _Filled(formats.document(path, kind, filling))


def plain_name(name: str) -> str:
    """Return the name of a file without folders and odd characters."""
    return re.sub(r"[^\w.-]", "_", Path(name).name)[-100:].lstrip(".") or "file"


def _kind_of(path: Path) -> str:
    try:
        kind = formats.format_of(path)
    except InputError:
        kind = ""
    if not kind or (kind == formats.TEXT and path.suffix.lower() != _PLAIN):
        raise RefusedError(422, "Invalid request: file format not supported")
    return kind


@contextmanager
def _refused(path: Path) -> Iterator[None]:
    """Refuse a file with an error, without the name of our copy of it."""
    try:
        yield
    except InputError as error:
        raise RefusedError(422, line_of(error).replace(str(path), "the file")) from None


class Results:
    """Translated files that wait to be fetched. The oldest are dropped if there are too many."""

    def __init__(self) -> None:
        self._files: OrderedDict[str, Upload] = OrderedDict()

    def add(self, file: Upload) -> str:
        """Keep a file, and return a key that cannot be guessed."""
        key = secrets.token_urlsafe(16)
        self._files[key] = file
        while len(self._files) > _MOST_KEPT or sum(len(each.data) for each in self._files.values()) > _MOST_BYTES:
            self._files.popitem(last=False)
        return key

    def get(self, key: str) -> Upload | None:
        return self._files.get(key)
