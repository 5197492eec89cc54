"""A data directory: dictionaries, the list of domains, and one sub-directory of binarised text per domain."""

from __future__ import annotations

import re
from pathlib import Path

from fairseq import utils
from fairseq.data.indexed_dataset import infer_dataset_impl

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


def check_directories(data: Path, domains: list[str], wanted: list[str]) -> None:
    """Check that the sub-directories with data are those of listed domains, and all that are wanted."""
    present = {path.parent.name for path in data.glob("*/*.idx")}
    for name in wanted:
        if name not in present:
            raise InputError(f"{data / name}: no binarised data; {data / DOMAINS_FILE} lists this domain")
    for name in sorted(present - set(domains)):
        raise InputError(f"{data / name}: not listed in {data / DOMAINS_FILE}; add the domain or remove its data")


def check_dataset_impl(directory: Path, split: str, dataset_impl: str | None) -> None:
    """Check that a domain's split is of the kind that ``--dataset-impl`` reads."""
    for path in sorted(directory.glob(f"{split}*.idx")):
        found = infer_dataset_impl(str(path.with_suffix("")))
        if dataset_impl is not None and found != str(dataset_impl):
            raise InputError(
                f"{path}: --dataset-impl {dataset_impl} cannot read it, it is {found}; leave the option out"
            )


def infer_languages(data: Path) -> tuple[str, str]:
    """The language pair of a data directory, from the name of a file like ``DOMAIN/train.en-de.en.idx``."""
    for path in sorted(data.glob("*/*.idx")):
        match = re.fullmatch(r"[^.]+\.([^.-]+)-([^.-]+)\.[^.]+\.idx", path.name)
        if match:
            return match[1], match[2]
    raise InputError(f"{data}: no file like DOMAIN/train.en-de.en.idx; give --source-lang and --target-lang")
