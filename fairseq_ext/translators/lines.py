"""The lines of a user's text, each with the route that it is to take."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from itertools import islice, zip_longest
from pathlib import Path
from typing import IO

from fairseq_ext.corpora.files import open_binary, read_chunks
from fairseq_ext.corpora.raw_text import MAX_LINE_BYTES, decode_lines, too_long
from fairseq_ext.inputs.errors import InputError

# A text and its route; None for the system's own.
RoutedLine = tuple[str, str | None]


def file_lines(path: Path) -> Iterator[str]:
    r"""Yield a UTF-8 file's lines, empty ones too; they end at ``\n`` and nowhere else.

    Raises:
        InputError: naming the line that is no text.
    """
    with open_binary(path, "rb") as file:
        for number, line in enumerate(decode_lines(read_chunks(file, str(path)), str(path), None, Counter()), start=1):
            assert line is not None  # what is not UTF-8 stops
            yield _without_null(line, f"{path}, line {number}")


def stream_lines(file: IO[bytes], name: str) -> Iterator[str]:
    """Yield the lines of a stream, each as soon as it has come.

    Raises:
        InputError: as :func:`file_lines`.
    """
    for number, raw in enumerate(iter(partial(file.readline, MAX_LINE_BYTES + 1), b""), start=1):
        where = f"{name}, line {number}"
        if len(raw) > MAX_LINE_BYTES:
            raise too_long(where)
        try:
            line = raw.decode("utf-8").removesuffix("\n")
        except UnicodeDecodeError as error:
            raise InputError(f"{where}: byte {error.start + 1} is not UTF-8; convert the text to UTF-8") from None
        yield _without_null(line, where)


def routed_by_file(lines: Iterable[str], name: str, path: Path, domains: Sequence[str]) -> Iterator[RoutedLine]:
    """Each line by the domain that a file names in its place.

    Args:
        lines: of the text.
        name: of the text, for messages.
        path: of the file, one domain a line; it may be empty where the text's is.
        domains: that there are.

    Raises:
        InputError: naming the line whose domain is unknown or missing, or has no text.
    """
    for number, (line, domain) in enumerate(zip_longest(lines, file_lines(path)), start=1):
        if line is None or domain is None:
            short, long = (name, path) if line is None else (path, name)
            raise InputError(f"{long}, line {number}: has no counterpart in {short}, which ends before; give one each")
        domain = domain.strip()
        if domain not in domains and (domain or line.strip()):
            raise InputError(f"{path}, line {number}: unknown domain {domain!r}; there are {', '.join(domains)}")
        yield line, domain or None


def blocks(lines: Iterable[RoutedLine], size: int) -> Iterator[list[RoutedLine]]:
    """Yield lines in lists of ``size``; the last may be shorter."""
    lines = iter(lines)
    while block := list(islice(lines, size)):
        yield block


def _without_null(line: str, where: str) -> str:
    if "\0" in line:
        raise InputError(f"{where}: holds a null byte, as no text does; take it out")
    return line
