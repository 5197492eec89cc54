"""A data directory: dictionaries, the list of domains, and one sub-directory of binarised text per domain."""

from __future__ import annotations

import re
from pathlib import Path

from fairseq import utils

from fairseq_ext.inputs.domain_names import DOMAINS_FILE, read_domain_names
from fairseq_ext.inputs.errors import InputError


def split_directories(data: str | None) -> list[Path]:
    """The directories of a data option, ``DIR`` or ``DIR1:DIR2:…``."""
    directories = [Path(path) for path in utils.split_paths(data or "") if path]
    if not directories:
        raise InputError("no data directory; give one with domains.txt and dictionaries")
    return directories


def read_domains(directories: list[Path]) -> list[str]:
    """The domains of all of these directories."""
    domains = read_domain_names(directories[0] / DOMAINS_FILE)
    for directory in directories[1:]:
        if read_domain_names(directory / DOMAINS_FILE) != domains:
            raise InputError(f"{directory / DOMAINS_FILE}: differs from {directories[0] / DOMAINS_FILE}; make it equal")
    return domains


def check_directories(data: Path, domains: list[str]) -> None:
    """Check that all sub-directories with data are of listed domains."""
    for path in sorted(data.glob("*/*.idx")):
        if path.parent.name not in domains:
            raise InputError(f"{path.parent}: not listed in {data / DOMAINS_FILE}; add the domain or remove its data")


def infer_languages(data: Path) -> tuple[str, str]:
    """The language pair of a data directory, from the name of a file like ``DOMAIN/train.en-de.en.idx``."""
    for path in sorted(data.glob("*/*.idx")):
        match = re.fullmatch(r"[^.]+\.([^.-]+)-([^.-]+)\.[^.]+\.idx", path.name)
        if match:
            return match[1], match[2]
    raise InputError(f"{data}: no file like DOMAIN/train.en-de.en.idx; give --source-lang and --target-lang")
