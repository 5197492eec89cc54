"""Translation of uploaded files: the texts of a document, and the document with their translations."""

from __future__ import annotations

import asyncio
import io
import json
import re
import secrets
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from fairseq_ext.inputs.errors import InputError, line_of
from fairseq_ext.runtime.requests import Request
from fairseq_ext.serving.body import Order, Upload
from fairseq_ext.serving.refusals import RefusedError, reason
from fairseq_ext.translators import formats
from fairseq_ext.translators.document import Document, Filling

if TYPE_CHECKING:
    from fairseq_ext.runtime.translator import SystemTranslator
    from fairseq_ext.serving.batcher import Outcome

    Submit = Callable[[Order], Future[Outcome]]

FILE_STEPS = "application/x-ndjson"  # content type of progress
_BLOCK = 32  # texts of a file in an order; other orders come between
_PLAIN = ".txt"
SUFFIXES = (_PLAIN, *formats.SUFFIXES, ".xml")  # .xml of Android
_MOST_KEPT, _MOST_BYTES = 64, 256 << 20  # translated files that wait to be fetched


@contextmanager
def opened(upload: Upload, filling: Filling) -> Iterator[Document]:
    """Give the document in a file, which exists as long as the context.

    Raises:
        RefusedError: if it has no format that is supported.
    """
    with TemporaryDirectory() as folder:
        path = Path(folder) / plain_name(upload.name)
        path.write_bytes(upload.data)
        with _refused(path):
            yield formats.document(path, _kind_of(path), filling)


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


class Files:
    """Translates files, and keeps the results until they are fetched. The oldest are dropped if there are too many."""

    def __init__(self) -> None:
        self._results: OrderedDict[str, Upload] = OrderedDict()

    async def translate(
        self, upload: Upload, route: str, system: SystemTranslator, submit: Submit, address: str
    ) -> AsyncIterator[dict[str, Any]]:
        """Translate a file, and yield the numbers of texts done and in total, and finally where the result is.

        Args:
            submit: function that accepts an order; see :meth:`~fairseq_ext.serving.batcher.Batcher.submit`.
            address: address of the service, with a slash at the end.
        """
        with opened(upload, Filling(system.languages, system.name)) as file:
            texts = await asyncio.to_thread(lambda: list(file.texts()))
            translations: list[str] = []
            while len(translations) < len(texts):
                yield {"done": len(translations), "total": len(texts)}
                block = texts[len(translations) :][:_BLOCK]
                order = Order(tuple(Request(text, route, dialect=dialect) for text, dialect in block))
                outcome = await asyncio.wrap_future(submit(order))
                translations += [answer.candidates[0].text for answer in outcome.answers]
            data = io.BytesIO()
            await asyncio.to_thread(file.write, translations, data)
        stem, dot, suffix = plain_name(upload.name).rpartition(".")
        name = f"{stem}_{system.languages[1]}{dot}{suffix}"
        url = f"{address}download_file/{self._add(Upload(name, data.getvalue()))}/{name}"
        yield {"translatedFileUrl": url, "done": len(texts), "total": len(texts)}

    def _add(self, file: Upload) -> str:
        """Keep a file, and return a key that cannot be guessed."""
        key = secrets.token_urlsafe(16)
        self._results[key] = file
        while len(self._results) > _MOST_KEPT or sum(len(each.data) for each in self._results.values()) > _MOST_BYTES:
            self._results.popitem(last=False)
        return key

    def get(self, key: str) -> Upload | None:
        """Return a translated file."""
        return self._results.get(key)


async def json_lines(steps: AsyncIterator[dict[str, Any]]) -> AsyncIterator[str]:
    """Yield each step as a line of JSON; an error is the last one."""
    try:
        async for step in steps:
            yield json.dumps(step) + "\n"
    except Exception as error:
        yield json.dumps({"error": reason(error)}) + "\n"
