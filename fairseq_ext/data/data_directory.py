"""A binarised data directory: one sub-directory per domain, and the list of domains."""

from __future__ import annotations

import re
from pathlib import Path

from fairseq_ext.domains.names import DOMAINS_FILE
from fairseq_ext.errors import InputError


def check_directories(data: Path, domains: list[str]) -> None:
    """Check that the sub-directories with data are the listed domains.

    Raises:
        InputError: naming a domain without a directory, or a directory that is not listed.
    """
    present = {path.parent.name for path in data.glob("*/*.idx")}
    for name in domains:
        if name not in present:
            raise InputError(f"{data / name}: no binarised data; {data / DOMAINS_FILE} lists this domain")
    for name in sorted(present - set(domains)):
        raise InputError(f"{data / name}: not listed in {data / DOMAINS_FILE}; add the domain or remove its data")


def infer_languages(directory: Path) -> tuple[str, str]:
    """The language pair of a domain's files, from a name like ``train.en-de.en.idx``.

    Raises:
        InputError: if no file is named so.
    """
    for path in sorted(directory.glob("*.idx")):
        match = re.fullmatch(r"[^.]+\.([^.-]+)-([^.-]+)\.[^.]+\.idx", path.name)
        if match:
            return match[1], match[2]
    raise InputError(f"{directory}: no file like train.en-de.en.idx; give --source-lang and --target-lang")
