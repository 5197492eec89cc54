"""Read and write text files in UTF-8, in particular parallel text: two files with one translation pair per line."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from itertools import zip_longest
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from fairseq_ext.base.errors import InputError
from fairseq_ext.text.files import open_binary, read_chunks
from fairseq_ext.text.raw_text import MAX_LINE_BYTES, decode_lines, too_long

# Small, so that many files can be read in parallel.
_CHUNK_BYTES = 8 << 10
_END: Any = object()
_T = TypeVar("_T")


class Pair(NamedTuple):
    """A sentence and its translation, with white space collapsed to single spaces."""

    source: str
    target: str


def read_lines(path: Path, *, may_be_blank: bool = False) -> list[str]:
    r"""Read the lines of a UTF-8 file, which end only at ``\n``; files are decompressed according to their suffix.

    Python's text mode also ends lines at a lone carriage return, and ``splitlines`` at U+2028 and six more characters.
    Corpora have these inside sentences, and the two sides would become misaligned. ``may_be_blank`` allows a file
    without text, e.g. translations by a model that produces only empty sentences.
    """
    return list(stream_lines(path, may_be_blank=may_be_blank))


def read_lines_like(path: Path, others: Sequence[str], other_path: Path) -> list[str]:
    """Read lines that correspond to ``others``, the lines of ``other_path``; all may be blank."""
    lines = read_lines(path, may_be_blank=True)
    if len(lines) != len(others):
        raise InputError(
            f"{path}: has {len(lines)} lines, but {other_path} has {len(others)}; create it again from that file"
        )
    return lines


def collapse(text: str) -> str:
    """Collapse white space, including Unicode line separators, to single spaces."""
    # Fast path for most text: the space is the only printable white space.
    if text.isprintable() and "  " not in text:
        return text.strip(" ")
    return " ".join(text.split())


def write_lines(path: Path, lines: Iterable[str]) -> None:
    """Write lines as UTF-8, each terminated by a line feed."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", encoding="utf-8", newline="\n") as file:
        file.writelines(line + "\n" for line in lines)


def stdin_lines() -> Iterator[str]:
    """Yield the lines of standard input as they arrive."""
    read = partial(sys.stdin.buffer.readline, MAX_LINE_BYTES + 1)
    for number, raw in enumerate(iter(read, b""), start=1):
        if len(raw) > MAX_LINE_BYTES:
            raise too_long(f"standard input, line {number}")
        try:
            yield raw.decode("utf-8").removesuffix("\n")
        except UnicodeDecodeError:
            raise InputError(f"standard input, line {number}: is not UTF-8; convert the text to UTF-8") from None


def stream_lines(path: Path, on_bad_utf8: str | None = None, *, may_be_blank: bool = False) -> Iterator[str]:
    """Yield the lines of a file like :func:`read_lines`, in bounded memory; errors are raised when reached.

    ``on_bad_utf8="replace"`` replaces bytes that are not UTF-8 by U+FFFD; None raises an error.
    """
    is_blank = True
    with open_binary(path, "rb") as file:
        for line in decode_lines(read_chunks(file, str(path), _CHUNK_BYTES), str(path), on_bad_utf8, Counter()):
            assert line is not None  # only the policy "drop" yields None
            is_blank = is_blank and not line.strip()
            yield line
    if is_blank and not may_be_blank:
        raise InputError(f"{path}: is empty; give a file with text")


def count_lines(path: Path) -> int:
    """Return the number of lines of a file, which need not be valid UTF-8."""
    return sum(1 for _ in stream_lines(path, "replace"))


def stream_parallel(source_path: Path, target_path: Path, *, quiet: bool = False) -> Iterator[Pair]:
    """Yield the pairs of two files in bounded memory; errors are raised when reached.

    Pairs with an empty side are dropped and, unless ``quiet``, counted on stderr.
    """
    num_pairs = num_kept = 0
    for source, target in zip_sides(stream_lines(source_path), stream_lines(target_path), (source_path, target_path)):
        num_pairs += 1
        pair = Pair(collapse(source), collapse(target))
        if pair.source and pair.target:
            num_kept += 1
            yield pair
    if num_kept < num_pairs and not quiet:
        dropped = num_pairs - num_kept
        print(f"{source_path}: dropped {dropped} of {num_pairs} pairs, which have an empty side", file=sys.stderr)
    if not num_kept:
        raise InputError(f"{source_path}: no line has text on both sides; give other files")


def zip_sides(source: Iterable[_T], target: Iterable[_T], names: tuple[object, object]) -> Iterator[tuple[_T, _T]]:
    """Yield the items of both sides in parallel; raise InputError if one side has more."""
    sides = zip_longest(source, target, fillvalue=_END)
    for number, (one, other) in enumerate(sides, start=1):
        if one is _END or other is _END:
            short, long = names if one is _END else names[::-1]
            raise InputError(
                f"{long}, line {number}: has no counterpart in {short}, which ends after line {number - 1}; "
                "line N of one file must translate line N of the other"
            )
        yield one, other


def write_parallel(source_path: Path, target_path: Path, pairs: Iterable[Pair]) -> None:
    """Write pairs to two files in the format of :func:`write_lines`, in bounded memory."""
    for path in (source_path, target_path):
        path.parent.mkdir(parents=True, exist_ok=True)
    with (
        source_path.open("w", encoding="utf-8", newline="\n") as sources,
        target_path.open("w", encoding="utf-8", newline="\n") as targets,
    ):
        for source, target in pairs:
            sources.write(source + "\n")
            targets.write(target + "\n")
