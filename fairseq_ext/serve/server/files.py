"""Translation of uploaded files: the texts of a document, and the document with their translations."""

from __future__ import annotations

import asyncio
import io
import json
import re
import secrets
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import partial
from itertools import accumulate
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from fairseq_ext.base.errors import InputError, line_of
from fairseq_ext.serve.documents import formats
from fairseq_ext.serve.documents.document import Document, Filling
from fairseq_ext.serve.runtime.requests import Request
from fairseq_ext.serve.runtime.translator import SystemTranslator
from fairseq_ext.serve.server.batcher import Outcome
from fairseq_ext.serve.server.body import Order, Upload
from fairseq_ext.serve.server.refusals import RefusedError, reason

Submit = Callable[[Order], Future[Outcome]]
FILE_STEPS = "application/x-ndjson"  # content type of progress
_BLOCK, _BLOCK_CHARACTERS = 32, 10_000  # of texts of a file in an order; other orders come between
_PLAIN = ".txt"
SUFFIXES = (_PLAIN, *formats.SUFFIXES, ".xml")  # .xml of Android
_MOST_KEPT, _MOST_BYTES = 64, 256 << 20  # translated files that wait to be fetched


def plain_name(name: str) -> str:
    """Return the name of a file without folders and odd characters."""
    return re.sub(r"[^\w.-]", "_", Path(name).name)[-100:].lstrip(".") or "file"


def _opened(data: bytes, path: Path, filling: Filling) -> Document:
    """Write a file, and return the document in it.

    Raises:
        RefusedError: if it has no format that is supported.
    """
    path.write_bytes(data)
    with suppress(InputError):
        kind = formats.format_of(path)
        if kind != formats.TEXT or path.suffix.lower() == _PLAIN:
            return Document(path, formats.FORMATS[kind], filling)
    raise RefusedError(422, "Invalid request: file format not supported")


def _first_block(texts: Sequence[tuple[str, str]]) -> Sequence[tuple[str, str]]:
    sizes = accumulate(len(text) for text, _ in texts[:_BLOCK])
    return texts[: max(sum(size <= _BLOCK_CHARACTERS for size in sizes), 1)]


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
        self._reader = ThreadPoolExecutor(1, "files")  # one thread, so that others have a share of the interpreter

    async def translate(
        self, upload: Upload, route: str, system: SystemTranslator, submit: Submit, address: str
    ) -> AsyncIterator[dict[str, Any]]:
        """Translate a file, and yield the numbers of texts done and in total, and finally where the result is.

        Args:
            submit: function that accepts an order; see :meth:`~fairseq_ext.serve.server.batcher.Batcher.submit`.
            address: address of the service, with a slash at the end.
        """
        aside = partial(asyncio.get_running_loop().run_in_executor, self._reader)
        with TemporaryDirectory() as folder, _refused(path := Path(folder) / plain_name(upload.name)):
            file = await aside(_opened, upload.data, path, Filling(system.languages, system.name))
            texts = await aside(lambda: list(file.texts()))
            translations: list[str] = []
            while len(translations) < len(texts):
                yield {"done": len(translations), "total": len(texts)}
                block = _first_block(texts[len(translations) :])
                order = Order(tuple(Request(text, route, dialect=dialect) for text, dialect in block))
                outcome = await asyncio.wrap_future(await aside(submit, order))
                translations += [answer.candidates[0].text for answer in outcome.answers]
            data = io.BytesIO()
            await aside(file.write, translations, data)
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
