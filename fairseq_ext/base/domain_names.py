"""Domain names: the ordered list that determines the number of each domain.

The list is the file ``domains.txt``, sorted, with one name per line. Adapters, gates, teacher probabilities and domain
tags all follow its order, so only this module reads it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path

from fairseq_ext.base.errors import InputError

DOMAINS_FILE = "domains.txt"
BASE_ROUTE = "base"  # the base model alone; also the classifier's class of text that is of no domain
# Routes other than a domain: the gates, the classifier, the base model alone, and each sentence's true domain.
RESERVED_NAMES = ("gates", "classifier", BASE_ROUTE, "oracle")
_NAME = r"[A-Za-z0-9][A-Za-z0-9_-]*"
NAME_PATTERN = f"^{_NAME}$"
_TAG = re.compile(f"<domain:{_NAME}>")
_NEGLIGIBLE = 1e-3  # more than the error of rounded weights


def is_domain_name(name: str) -> bool:
    """Return whether a name is valid: letters, digits, ``-`` and ``_``, starting with a letter or digit."""
    return re.fullmatch(_NAME, name) is not None


def check_domain_names(names: Iterable[str], where: str) -> list[str]:
    """Return the names as a list; raise InputError if one is ill-formed, reserved, repeated or out of order."""
    names = _check_forms(names, where)
    for name in names:
        if name in RESERVED_NAMES:
            raise InputError(f"{where}: {name!r} is reserved for a way to translate; rename the domain")
    return names


def _check_forms(names: Iterable[str], where: str) -> list[str]:
    names = list(names)
    for name in names:
        if not is_domain_name(name):
            raise InputError(f"{where}: {name!r} is not a domain name; use only letters, digits, '-' and '_'")
    # In a fixed order, row d of every stacked tensor is the same domain on every machine.
    if not names or names != sorted(set(names)):
        remedy = f"write {', '.join(sorted(set(names)))}" if names else "give at least one"
        raise InputError(f"{where}: domain names must be sorted and must not repeat; {remedy}")
    return names


def read_domain_names(path: Path) -> list[str]:
    """Read ``domains.txt``, with one name per line."""
    if not path.is_file():
        raise InputError(f"{path}: not found; list the domains of the data directory in {DOMAINS_FILE}, one per line")
    return _check_forms(path.read_text(encoding="utf-8").split(), str(path))


def domain_tag(name: str) -> str:
    """Return the dictionary symbol of a domain, e.g. ``<domain:LAW>``."""
    return f"<domain:{name}>"


def is_domain_tag(symbol: str) -> bool:
    """Return whether a symbol is a domain tag."""
    return _TAG.fullmatch(symbol) is not None


def count_domain_tags(text: str) -> int:
    """Return the number of domain tags in a text."""
    return len(_TAG.findall(text))


def with_base(weights: Mapping[str, float]) -> dict[str, float]:
    """Return the weights of domains' adapters and, if it is not negligible, the share that they leave to the base."""
    base = 1 - sum(weights.values())
    return {**weights, BASE_ROUTE: base} if base > _NEGLIGIBLE else dict(weights)
