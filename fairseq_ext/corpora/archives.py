"""Files out of a folder, a zip or a tar archive: whole, and within limits, since an archive may be made to harm."""

from __future__ import annotations

import bz2
import gzip
import lzma
import os
import re
import struct
import tarfile
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, cast

from fairseq_ext.corpora.compressed import DAMAGE, check_file, damage, shown
from fairseq_ext.inputs.errors import InputError

# Of all files taken from an archive together; the catalogues of a language in a large desktop have less.
MAX_BYTES = 128 << 20
# What tarfile reads at once: a member's names and attributes. Its patterns take time quadratic in their length.
_MAX_HEADER_BYTES = 16 << 10
_ZIP_SUFFIXES = (".whl", ".zip")
_TAR_COMPRESSIONS: dict[bytes, Callable[[IO[bytes]], object]] = {
    b"\x1f\x8b": lambda raw: gzip.GzipFile(fileobj=raw, mode="rb"),
    b"BZh": bz2.BZ2File,
    b"\xfd7zXZ": lzma.LZMAFile,
}
# What else zipfile and tarfile raise at headers that no program writes.
_ODD_HEADERS = (*DAMAGE, ValueError, KeyError, IndexError, OverflowError, RecursionError, struct.error)


def read_members(path: Path, wanted: re.Pattern[str]) -> dict[str, bytes]:
    """Read the files whose names match, names as below the folder or in the archive.

    Raises:
        InputError: if the path is none of these, an archive is damaged, what matches is no file or leads to none, or
            the files have more than ``MAX_BYTES`` together.
    """
    if path.is_dir():
        members = _folder_members(path, wanted)
    elif is_zip(path):
        members = _zip_members(path, wanted)
    elif is_tar(path):
        members = _tar_members(path, wanted)
    else:
        raise InputError(f"{path}: is no catalogue (.po, .mo), folder, zip or tar archive")
    found, room = {}, MAX_BYTES
    for name, file in members:
        found[name] = _read_whole(file, room, f"{path}/{shown(name)}")
        room -= len(found[name])
    return found


def read_file(path: Path) -> bytes:
    """Read one file, of at most ``MAX_BYTES``.

    Raises:
        InputError: if there is none, or it has more.
    """
    check_file(path)
    with path.open("rb") as file:
        return _read_whole(file, MAX_BYTES, str(path))


def is_zip(path: Path) -> bool:
    """Whether a file is a zip archive, or named like one."""
    check_file(path)
    return path.suffix in _ZIP_SUFFIXES or zipfile.is_zipfile(path)


def is_tar(path: Path) -> bool:
    """Whether a file is a tar archive, compressed by gzip, bzip2, xz or not at all."""
    check_file(path)
    try:
        with _open_tar(path):
            return True
    except (InputError, *_ODD_HEADERS):
        return False


@contextmanager
def open_zip(path: Path) -> Iterator[zipfile.ZipFile]:
    """Open a zip archive; damage found before the block ends is an input error.

    Raises:
        InputError: if it is damaged, or its members share bytes: so a small one could hold any amount.
    """
    check_file(path)
    try:
        with zipfile.ZipFile(path) as archive:
            _check_overlap(archive)
            yield archive
    except _ODD_HEADERS as error:
        raise damage(str(path), error) from None


def _check_overlap(archive: zipfile.ZipFile) -> None:
    end = 0
    for member in sorted(archive.infolist(), key=lambda member: member.header_offset):
        if member.header_offset < end:
            raise zipfile.BadZipFile(f"{shown(member.filename)!r} lies within another file")
        end = member.header_offset + member.compress_size


def _folder_members(path: Path, wanted: re.Pattern[str]) -> Iterator[tuple[str, IO[bytes]]]:
    try:
        for folder, _, names in os.walk(path, onerror=_raise):
            for file in (Path(folder) / name for name in names):
                name = file.relative_to(path).as_posix()
                if wanted.fullmatch(name):
                    check_file(file)
                    with file.open("rb") as opened:
                        yield name, opened
    except OSError as error:
        raise InputError(f"{error.filename or path}: cannot be read ({error.strerror})") from None


def _zip_members(path: Path, wanted: re.Pattern[str]) -> Iterator[tuple[str, IO[bytes]]]:
    with open_zip(path) as archive:
        for name in archive.namelist():
            if wanted.fullmatch(name):
                with archive.open(name) as file:
                    yield name, file


def _tar_members(path: Path, wanted: re.Pattern[str]) -> Iterator[tuple[str, IO[bytes]]]:
    try:
        with _open_tar(path) as tar:
            offset = -1
            for member in tar:
                # A size below zero leads back to a header that was read before, for ever.
                if member.offset <= offset or member.size < 0:
                    raise tarfile.ReadError(f"{shown(member.name)!r} has no size")
                offset = member.offset
                if wanted.fullmatch(member.name) and not member.isdir():
                    yield member.name, _tar_file(tar, member, path)
    except _ODD_HEADERS as error:
        raise damage(str(path), error) from None


def _tar_file(tar: tarfile.TarFile, member: tarfile.TarInfo, path: Path) -> IO[bytes]:
    try:
        file = tar.extractfile(member)
    except (KeyError, RecursionError):
        raise InputError(
            f"{path}/{shown(member.name)}: is a link to {shown(member.linkname)!r}, which the archive lacks"
        ) from None
    if file is None:
        raise InputError(f"{path}/{shown(member.name)}: is no file; take it out of the archive")
    return file


@contextmanager
def _open_tar(path: Path) -> Iterator[tarfile.TarFile]:
    with path.open("rb") as raw:
        start = raw.peek(8)
        opener = next((each for magic, each in _TAR_COMPRESSIONS.items() if start.startswith(magic)), None)
        file = raw if opener is None else cast(IO[bytes], opener(raw))
        with tarfile.open(fileobj=_Headers(file), mode="r:") as tar:  # type: ignore[call-overload]
            yield tar


class _Headers:
    """A file for tarfile, which would read a header of any length, and of a length below zero all there is."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self.seek, self.tell = file.seek, file.tell

    def read(self, size: int = -1) -> bytes:
        if not 0 <= size <= _MAX_HEADER_BYTES:
            raise tarfile.ReadError(f"a header of {size} bytes")
        return self._file.read(size)


def _read_whole(file: IO[bytes], room: int, name: str) -> bytes:
    parts = []
    try:
        while part := file.read(_MAX_HEADER_BYTES):
            parts.append(part)
            room -= len(part)
            if room < 0:
                raise InputError(
                    f"{name}: with it, there is more than {MAX_BYTES >> 20} MiB to read; take it apart, and give the "
                    "parts one by one"
                )
    except _ODD_HEADERS as error:
        raise damage(name, error) from None
    return b"".join(parts)


def _raise(error: OSError) -> None:
    raise error
