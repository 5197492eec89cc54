"""Fetching pinned Python packages as archives, without installing them or running their code."""

from __future__ import annotations

import os
import re
import shutil
import sys
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from packaging.utils import InvalidWheelFilename, canonicalize_name, parse_wheel_filename
from packaging.version import InvalidVersion, Version

from fairseq_ext.engine.children import run_child
from fairseq_ext.inputs.errors import InputError

# One platform for everybody: the text in a wheel is the same for all, and so is then its checksum.
_PLATFORM = (
    *("--platform=manylinux_2_28_x86_64", "--platform=manylinux2014_x86_64", "--platform=any"),
    *("--python-version=3.11", "--implementation=cp"),
)
_PINNED = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*==[A-Za-z0-9.+!_-]+")


def is_requirement(entry: str) -> bool:
    """Whether an entry names a pinned package (``name==version``) rather than a path."""
    return _PINNED.fullmatch(entry) is not None


def fetch_packages(requirements: Sequence[str], folder: Path) -> dict[str, Path]:
    """Return every pinned package's wheel, fetching into ``folder`` those it does not hold.

    Only wheels are taken: asking pip for a source archive's metadata runs the package's build script.
    """
    folder.mkdir(parents=True, exist_ok=True)
    missing = [requirement for requirement in requirements if find_wheel(requirement, folder) is None]
    if missing:
        print(f"fetching {len(missing)} packages, {missing[0]} first", file=sys.stderr, flush=True)
    if len(missing) > 1:
        _download(missing, folder)  # by one pip, which is fastest; what it refuses together is fetched one by one
    return {requirement: find_wheel(requirement, folder) or _fetch(requirement, folder) for requirement in requirements}


def find_wheel(requirement: str, folder: Path) -> Path | None:
    """Return the wheel of a pinned package in a folder, if it is there."""
    name, _, version = requirement.partition("==")
    try:
        wanted = canonicalize_name(name), Version(version)
    except InvalidVersion:
        raise InputError(f"{requirement!r}: has no version that a package can have") from None
    for path in sorted(folder.glob("*.whl")):
        with suppress(InvalidWheelFilename):
            if parse_wheel_filename(path.name)[:2] == wanted:
                return path
    return None


def _fetch(requirement: str, folder: Path) -> Path:
    complaints = _download([requirement], folder)
    wheel = find_wheel(requirement, folder)
    if wheel is None:
        raise InputError(
            f"{requirement}: cannot be fetched ({_last_error(complaints)}); check the network and the "
            "version, or fetch the package yourself and give the archive's path"
        )
    return wheel


def _download(requirements: Sequence[str], folder: Path) -> str:
    """Let pip fetch all of them or none, and return what it says.

    Into a temporary folder, out of which complete files are moved, so that a kill leaves no torn one.
    """
    with tempfile.TemporaryDirectory(prefix=".fetch-", dir=folder) as temporary:
        options = ["--quiet", "--no-deps", "--only-binary=:all:", *_PLATFORM, "--dest", temporary]
        command = [sys.executable, "-P", "-m", "pip", "download", *options, *requirements]
        environment = {**os.environ, "PIP_DISABLE_PIP_VERSION_CHECK": "1", "PIP_NO_INPUT": "1"}
        result = run_child(command, capture_output=True, text=True, env=environment)
        if result.returncode == 0:
            for wheel in Path(temporary).glob("*.whl"):
                shutil.move(wheel, folder / wheel.name)
    return result.stderr


def _last_error(messages: str) -> str:
    """The last of pip's complaints, preferring those it calls errors."""
    lines = [line for line in messages.splitlines() if line.strip()] or ["pip gave no reason"]
    return ([line for line in lines if line.startswith("ERROR")] or lines)[-1].removeprefix("ERROR: ")
