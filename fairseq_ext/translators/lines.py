"""The lines of a user's text, each with the route that it is to take."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice, zip_longest
from pathlib import Path

from fairseq_ext.corpora.text_files import stdin_lines, stream_lines
from fairseq_ext.inputs.errors import InputError

STDIN = "standard input"
# A text and its route; None for the system's own.
RoutedLine = tuple[str, str | None]


def text_lines(path: Path | None) -> Iterator[str]:
    r"""Yield the lines of a UTF-8 file, or of standard input; they end at ``\n`` and nowhere else.

    Raises:
        InputError: naming the line that is no text.
    """
    lines = stdin_lines() if path is None else stream_lines(path, may_be_blank=True)
    for number, line in enumerate(lines, start=1):
        if "\0" in line:
            raise InputError(f"{path or STDIN}, line {number}: holds a null byte, as no text does; take it out")
        yield line


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
    for number, (line, domain) in enumerate(zip_longest(lines, text_lines(path)), start=1):
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
