"""Files compressed or not, by their suffix: .gz, .zst, .xz; what is damaged or cut off never passes for whole."""

from __future__ import annotations

import gzip
import io
import lzma
import os
import stat
import tarfile
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO, cast

from backports import zstd

from fairseq_ext.inputs.errors import InputError

SUFFIXES = (".gz", ".zst", ".xz")
# All that reading a damaged file can raise; zipfile has no exceptions of its own for unknown methods and passwords.
DAMAGE = (
    *(OSError, EOFError, zlib.error, lzma.LZMAError, zstd.ZstdError),
    *(zipfile.BadZipFile, tarfile.TarError, NotImplementedError, RuntimeError),
)
_CHUNK_BYTES = 1 << 18
# xz -9 needs 65 MiB; a header may ask for 4 GiB.
_XZ_MEMORY = 256 << 20
_MAX_NAME = 200
_NO_FILES = {
    stat.S_IFDIR: "a folder",
    stat.S_IFIFO: "a pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


def check_file(path: Path, hint: str = "") -> None:
    """Check that there is a file to read: opening a pipe would wait for ever, and a device may never end.

    Args:
        path: of the file.
        hint: what to say if nothing is there.

    Raises:
        InputError: if the path leads nowhere, to something that is no file, or to one that this user may not read.
    """
    try:
        kind = stat.S_IFMT(path.stat().st_mode)
    except FileNotFoundError:
        raise InputError(f"{path}: not found" + (f"; {hint}" if hint else "")) from None
    except (OSError, ValueError) as error:
        raise InputError(f"{str(path)!r}: cannot be opened ({getattr(error, 'strerror', None) or error})") from None
    if kind != stat.S_IFREG:
        raise InputError(f"{path}: is {_NO_FILES[kind]}, not a file; give a file")
    if not os.access(path, os.R_OK):
        raise InputError(f"{path}: cannot be opened (you may not read it); ask for the right to, or copy it")


@contextmanager
def open_binary(path: Path, mode: str) -> Iterator[IO[bytes]]:
    """Open a file for reading or writing bytes, (de)compressed if its suffix says so.

    What is written depends on the bytes alone: neither a time nor a file name goes into the header.

    Args:
        path: plain, or ending in one of ``SUFFIXES``.
        mode: "rb" or "wb".

    Raises:
        InputError: if it cannot be opened.
    """
    if mode == "rb":
        check_file(path)
    with ExitStack() as stack:
        try:
            raw = stack.enter_context(path.open(mode))
        except OSError as error:
            raise InputError(f"{path}: cannot be opened ({error.strerror})") from None
        yield stack.enter_context(_decompressed(raw) if mode == "rb" else _compressed(raw))


def read_chunks(file: IO[bytes], name: str, size: int = _CHUNK_BYTES) -> Iterator[bytes]:
    """Yield a file's bytes as they come, at most ``size`` (256 KiB) at once.

    Raises:
        InputError: if the file is damaged or cut off, naming it and how far it is whole.
    """
    lines = 0
    try:
        # Not read(): it would lose what it has when the damage comes, and with it the place.
        while chunk := file.read1(size):  # type: ignore[attr-defined]
            lines += chunk.count(b"\n")
            yield chunk
    except DAMAGE as error:
        raise damage(name, error, f"after line {lines}") from None


def damage(name: str, error: BaseException, place: str = "") -> InputError:
    """The one line that says a file is damaged."""
    where = f" {place}" if place else ""
    return InputError(f"{name}: damaged or cut off{where} ({error}); fetch or copy it again")


def shown(name: str) -> str:
    """A name that a file gives, as a message of one line can show it."""
    short = name if len(name) <= _MAX_NAME else f"{name[:_MAX_NAME]}…"
    return short if short.isprintable() else ascii(short)[1:-1]


def _decompressed(raw: IO[bytes]) -> IO[bytes]:
    suffix = Path(raw.name).suffix
    if suffix == ".gz":
        # Python takes a gzip file of no bytes for a whole one.
        if not raw.peek(1):  # type: ignore[attr-defined]
            raise damage(raw.name, EOFError("it holds nothing"))
        return cast(IO[bytes], gzip.GzipFile(fileobj=raw, mode="rb"))
    if suffix == ".zst":
        return cast(IO[bytes], zstd.ZstdFile(raw, "rb"))
    if suffix == ".xz":
        return cast(IO[bytes], io.BufferedReader(_XzReader(raw)))
    return raw


def _compressed(raw: IO[bytes]) -> IO[bytes]:
    suffix = Path(raw.name).suffix
    if suffix == ".gz":
        return cast(IO[bytes], gzip.GzipFile(filename="", fileobj=raw, mode="wb", compresslevel=6, mtime=0))
    if suffix == ".zst":
        options = {int(zstd.CompressionParameter.checksum_flag): 1}
        return cast(IO[bytes], zstd.ZstdFile(raw, "wb", options=options))
    if suffix == ".xz":
        return cast(IO[bytes], lzma.LZMAFile(raw, "wb"))
    return raw


def _xz_decompressor() -> lzma.LZMADecompressor:
    return lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=_XZ_MEMORY)


class _XzReader(io.RawIOBase):
    """xz streams one after another; where lzma.LZMAFile takes damage in a later one for the end, this raises."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._stream = _xz_decompressor()

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        data = b""
        while not data:
            if self._stream.eof:
                compressed = self._next_stream()
                if not compressed:
                    return 0
            else:
                compressed = self._file.read(io.DEFAULT_BUFFER_SIZE) if self._stream.needs_input else b""
                if self._stream.needs_input and not compressed:
                    raise EOFError("the stream does not end")
            data = self._stream.decompress(compressed, len(buffer))
        buffer[: len(data)] = data
        return len(data)

    def _next_stream(self) -> bytes:
        """Return the first bytes of another stream, after any padding with zeros; none at the end."""
        compressed = self._stream.unused_data.lstrip(b"\0")
        while not compressed and (block := self._file.read(io.DEFAULT_BUFFER_SIZE)):
            compressed = block.lstrip(b"\0")
        self._stream = _xz_decompressor() if compressed else self._stream
        return compressed
