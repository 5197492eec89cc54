r"""Stream lines of raw text from corpora, in canonical form.

A canonical line has no white space other than single spaces between words, and no control characters. Lines end only
at ``\n``; see :func:`fairseq_ext.text.text_files.read_lines` for the reason. Repairs are counted in a ``tally``:

* ``bad_utf8_dropped``: pairs dropped because a side is not UTF-8; ``bad_utf8_replaced``: repaired lines;
* ``byte_order_marks``: files that started with one, and texts that contained some; the marks are removed;
* ``control_characters``: texts that contained some; each is replaced by a space;
* ``line_separators``: texts that contained U+2028, U+2029, NEL, a lone CR, VT, FF or FS to RS; replaced by spaces.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Literal

from fairseq_ext.base.errors import InputError
from fairseq_ext.text.files import open_binary, read_chunks

# How to handle text that is not UTF-8: raise an error, drop the pair, or replace bad bytes by U+FFFD.
ON_BAD_UTF8 = ("fail", "drop", "replace")
# Whether to keep inline markup of TMX, XLIFF and gettext.
Markup = Literal["keep", "strip"]
MARKUP: tuple[Markup, ...] = ("keep", "strip")
MAX_LINE_BYTES = 16 << 20

_MAX_NULLS = 0.4
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_NO_TEXT = {
    b"\x1f\x8b": "compressed by gzip; rename it to end in .gz",
    b"\x28\xb5\x2f\xfd": "compressed by zstd; rename it to end in .zst",
    b"\xfd7zXZ\0": "compressed by xz; rename it to end in .xz",
    b"PK\x03\x04": "a zip archive; rename it to end in .zip",
    b"\xff\xfe": "UTF-16; convert it to UTF-8",
    b"\xfe\xff": "UTF-16; convert it to UTF-8",
}
# Unicode's category Cc without white space, but with US, which separates parts of a line, not lines.
_CONTROL = re.compile("[\x00-\x08\x0e-\x1b\x1f\x7f-\x84\x86-\x9f]")
_SEPARATOR = re.compile("[\x0b\x0c\x1c-\x1e\x85\u2028\u2029]|\r(?!\\Z)")


def stream_canonical_lines(path: Path, policy: str | None, tally: Counter[str]) -> Iterator[str | None]:
    """Yield a file's canonical lines, with None for lines dropped by the policy "drop".

    Args:
        policy: one of ``ON_BAD_UTF8``, or None to raise an error that does not suggest another policy.
        tally: counter of repairs, updated in place.
    """
    with open_binary(path, "rb") as file:
        yield from canonical_lines(read_chunks(file, str(path)), str(path), policy, tally)


def canonical_lines(
    chunks: Iterable[bytes], name: str, policy: str | None, tally: Counter[str]
) -> Iterator[str | None]:
    """Yield the canonical lines of a file given in chunks; see :func:`stream_canonical_lines`."""
    for line in decode_lines(chunks, name, policy, tally):
        yield None if line is None else canonical(line, tally)


def decode_lines(chunks: Iterable[bytes], name: str, policy: str | None, tally: Counter[str]) -> Iterator[str | None]:
    """Yield the decoded lines of a file given in chunks, with white space unchanged."""
    number = 1
    for block in _whole_lines(chunks, name):
        if number == 1:
            block = _without_byte_order_mark(block, name, tally)
        try:
            lines: list[str | None] = [*block.decode("utf-8").split("\n")]
        except UnicodeDecodeError:
            raw_lines = block.split(b"\n")
            lines = [_decode(line, f"{name}, line {at}", policy, tally) for at, line in enumerate(raw_lines, number)]
        yield from lines
        number += len(lines)


def canonical(text: str, tally: Counter[str]) -> str:
    """Collapse white space, replace control characters by spaces, and remove byte-order marks."""
    # Fast path for nearly all text: except for the space, printable characters need no change.
    if text.isprintable() and "  " not in text and text[:1] != " " and text[-1:] != " ":
        return text
    if _SEPARATOR.search(text):
        tally["line_separators"] += 1
    if _CONTROL.search(text):
        tally["control_characters"] += 1
        text = _CONTROL.sub(" ", text)
    # Also inside a file: concatenated files have marks at the start of a line.
    if "\ufeff" in text:
        tally["byte_order_marks"] += 1
        text = text.replace("\ufeff", "")
    return " ".join(text.split())


def too_long(where: str) -> InputError:
    """Return the error for a line longer than ``MAX_LINE_BYTES``."""
    return InputError(f"{where}: is longer than {MAX_LINE_BYTES >> 20} MiB; give a text with one sentence per line")


def _whole_lines(chunks: Iterable[bytes], name: str) -> Iterator[bytes]:
    """Yield blocks of one or more whole lines, without the final line feed."""
    pending: list[bytes] = []
    pending_bytes, lines = 0, 0
    for chunk in chunks:
        end = chunk.find(b"\n")
        if pending_bytes + (end if end >= 0 else len(chunk)) > MAX_LINE_BYTES:
            raise too_long(f"{name}, line {lines + 1}")
        if end >= 0:
            end = chunk.rfind(b"\n")
            block = b"".join([*pending, chunk[:end]])
            lines += block.count(b"\n") + 1
            yield block
            chunk = chunk[end + 1 :]
            pending, pending_bytes = [], 0
        pending.append(chunk)
        pending_bytes += len(chunk)
    if pending_bytes:
        yield b"".join(pending)


def _without_byte_order_mark(block: bytes, name: str, tally: Counter[str]) -> bytes:
    for magic, what in _NO_TEXT.items():
        if block.startswith(magic):
            raise InputError(f"{name}: is {what}")
    # Without a mark, UTF-16 text in ASCII is valid UTF-8 in which every other byte is null.
    start = block[:1000]
    if start.count(0) > _MAX_NULLS * len(start):
        raise InputError(f"{name}: has many null bytes, so it is UTF-16 or not text; convert it to UTF-8")
    if b"\n" not in block and block.strip().count(b"\r") > 1:
        raise InputError(
            f"{name}: its lines end in carriage returns alone; convert them to line feeds by tr '\\r' '\\n'"
        )
    if block.startswith(_BYTE_ORDER_MARK):
        tally["byte_order_marks"] += 1
    return block.removeprefix(_BYTE_ORDER_MARK)


def _decode(line: bytes, where: str, policy: str | None, tally: Counter[str]) -> str | None:
    try:
        return line.decode("utf-8")
    except UnicodeDecodeError as error:
        if policy == "drop":
            return None
        if policy == "replace":
            tally["bad_utf8_replaced"] += 1
            return line.decode("utf-8", errors="replace")
        choice = ", or set on_bad_utf8 to 'drop' (the pair) or 'replace' (the bytes)" if policy else ""
        raise InputError(f"{where}: byte {error.start + 1} is not UTF-8; convert the file to UTF-8{choice}") from None
