"""Open files: plain, compressed (.gz, .zst, .xz), or in a folder, zip or tar archive.

Damaged or truncated files always raise an error, and size limits protect against archives that expand to fill memory.
"""

from __future__ import annotations

import gzip
import lzma
import os
import re
import stat
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO, Any, cast

from backports import zstd

from fairseq_ext.base.errors import InputError

SUFFIXES = (".gz", ".zst", ".xz")
# Exceptions from reading damaged files. zipfile raises the last two for unknown compression methods and passwords.
DAMAGE = (
    *(OSError, EOFError, zlib.error, lzma.LZMAError, zstd.ZstdError),
    *(zipfile.BadZipFile, tarfile.TarError, NotImplementedError, RuntimeError),
)
# Malformed headers also raise these; RuntimeError covers RecursionError.
_ODD_HEADERS = (*DAMAGE, ValueError, KeyError, IndexError, OverflowError, struct.error)
# Limit for all files read from an archive together; one language's catalogues of a large desktop are smaller.
MAX_BYTES = 128 << 20
_CHUNK_BYTES = 1 << 18


def check_file(path: Path, hint: str = "") -> None:
    """Check that a path is a regular file: opening a pipe could block forever, and a device may be endless."""
    try:
        mode = path.stat().st_mode
    except FileNotFoundError:
        raise InputError(f"{path}: not found" + (f"; {hint}" if hint else "")) from None
    except (OSError, ValueError) as error:
        raise InputError(f"{str(path)!r}: cannot be opened ({getattr(error, 'strerror', None) or error})") from None
    if not stat.S_ISREG(mode):
        raise InputError(f"{path}: is a folder, pipe, socket or device; give a regular file")


@contextmanager
def open_binary(path: Path, mode: str) -> Iterator[IO[bytes]]:
    """Open a file for reading ("rb") or writing ("wb") bytes, with (de)compression by its suffix.

    Output is deterministic: headers contain no time or file name.
    """
    if mode == "rb":
        check_file(path)
    with ExitStack() as stack:
        try:
            raw = stack.enter_context(path.open(mode))
        except OSError as error:
            raise InputError(f"{path}: cannot be opened ({error.strerror})") from None
        yield stack.enter_context(_uncompressed(raw, mode))


def read_chunks(file: IO[bytes], name: str, size: int = _CHUNK_BYTES) -> Iterator[bytes]:
    """Yield a file's bytes in chunks of at most ``size``; if the file is damaged, the error gives the line."""
    lines = 0
    try:
        # Not read(): on damage it would discard the data read so far, and with it the line number.
        while chunk := file.read1(size):  # type: ignore[attr-defined]
            lines += chunk.count(b"\n")
            yield chunk
    except DAMAGE as error:
        raise damage(name, error, f"after line {lines}") from None


def read_members(path: Path, wanted: re.Pattern[str], most: int | None = None) -> dict[str, bytes]:
    """Read the files with matching names from a folder or archive.

    ``most`` limits their bytes in total (default: ``MAX_BYTES``).
    """
    if path.is_dir():
        members = _folder_members(path, wanted)
    elif is_zip(path):
        members = _zip_members(path, wanted)
    elif is_tar(path):
        members = _tar_members(path, wanted)
    else:
        raise InputError(f"{path}: has an unknown format; give a catalogue (.po, .mo), folder, zip or tar archive")
    found: dict[str, bytes] = {}
    for name, file in members:
        found[name] = _read_whole(file, f"{path}/{name}", sum(map(len, found.values())), most or MAX_BYTES)
    return found


def read_file(path: Path) -> bytes:
    """Read a file of at most ``MAX_BYTES``."""
    with open_binary(path, "rb") as file:
        return _read_whole(file, str(path), 0, MAX_BYTES)


def is_zip(path: Path) -> bool:
    """Return whether a file is a zip archive by name or content."""
    check_file(path)
    return path.suffix in (".whl", ".zip") or zipfile.is_zipfile(path)


def is_tar(path: Path) -> bool:
    """Return whether a file is a tar archive: plain, or compressed by gzip, bzip2 or xz."""
    check_file(path)
    try:
        with tarfile.open(path):
            return True
    except _ODD_HEADERS:
        return False


@contextmanager
def open_zip(path: Path) -> Iterator[zipfile.ZipFile]:
    """Open a zip archive; damage raises InputError, also within the ``with`` block."""
    check_file(path)
    try:
        with zipfile.ZipFile(path) as archive:
            yield archive
    except _ODD_HEADERS as error:
        raise damage(str(path), error) from None


def damage(name: str, error: BaseException, place: str = "") -> InputError:
    """Return the error for a damaged file."""
    where = f" {place}" if place else ""
    return InputError(f"{name}: is damaged or truncated{where} ({error}); download or copy it again")


def _uncompressed(raw: IO[bytes], mode: str) -> IO[bytes]:
    file: Any = raw
    match Path(raw.name).suffix:
        case ".gz":
            # Python accepts a gzip file of zero bytes.
            if mode == "rb" and not raw.peek(1):  # type: ignore[attr-defined]
                raise damage(raw.name, EOFError("it is empty"))
            file = gzip.GzipFile(filename="", fileobj=raw, mode=mode, compresslevel=6, mtime=0)
        case ".zst":
            checksum = {int(zstd.CompressionParameter.checksum_flag): 1}
            file = zstd.ZstdFile(raw, "wb", options=checksum) if mode == "wb" else zstd.ZstdFile(raw, "rb")
        case ".xz":
            file = lzma.LZMAFile(raw, mode, format=lzma.FORMAT_XZ)  # noqa: SIM115
    return cast(IO[bytes], file)


def _folder_members(path: Path, wanted: re.Pattern[str]) -> Iterator[tuple[str, IO[bytes]]]:
    def fail(error: OSError) -> None:
        raise InputError(f"{error.filename or path}: cannot be read ({error.strerror})")

    for folder, _, names in os.walk(path, onerror=fail):
        for file in (Path(folder) / name for name in names):
            name = file.relative_to(path).as_posix()
            if wanted.fullmatch(name):
                with open_binary(file, "rb") as opened:
                    yield name, opened


def _zip_members(path: Path, wanted: re.Pattern[str]) -> Iterator[tuple[str, IO[bytes]]]:
    with open_zip(path) as archive:
        for name in archive.namelist():
            if wanted.fullmatch(name):
                with archive.open(name) as file:
                    yield name, file


def _tar_members(path: Path, wanted: re.Pattern[str]) -> Iterator[tuple[str, IO[bytes]]]:
    try:
        with tarfile.open(path) as tar:
            offset = -1
            for member in tar:
                # A negative size would lead back to an earlier header, in an endless loop.
                if member.offset <= offset or member.size < 0:
                    raise tarfile.ReadError(f"{member.name!r} has no size")
                offset = member.offset
                if wanted.fullmatch(member.name) and (file := tar.extractfile(member)):
                    yield member.name, file
    except _ODD_HEADERS as error:
        raise damage(str(path), error) from None


def _read_whole(file: IO[bytes], name: str, before: int, most: int) -> bytes:
    """Read a file; raise InputError if it and the ``before`` bytes already read exceed ``most``."""
    parts = []
    try:
        while part := file.read(_CHUNK_BYTES):
            parts.append(part)
            before += len(part)
            if before > most:
                limit = f"{most >> 20} MiB"
                raise InputError(
                    f"{name}: exceeds the limit of {limit} in total; split it, and give the parts one by one"
                )
    except _ODD_HEADERS as error:
        raise damage(name, error) from None
    return b"".join(parts)
