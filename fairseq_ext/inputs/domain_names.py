"""Domain names: the ordered list that gives every domain its number.

The list is one file, ``domains.txt``, one name a line, sorted. Adapters, gates, teacher
probabilities and domain tags all follow its order, so it is read here and nowhere else.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from fairseq_ext.inputs.errors import InputError

DOMAINS_FILE = "domains.txt"
# Routes that name no domain: the gates, the classifier, the base model alone, and each sentence's true domain.
RESERVED_NAMES = ("gates", "classifier", "base", "oracle")
_NAME = r"[A-Za-z0-9][A-Za-z0-9_-]*"
NAME_PATTERN = f"^{_NAME}$"
_TAG = re.compile(f"<domain:{_NAME}>")


def is_domain_name(name: str) -> bool:
    """Whether a name is fit for a domain: letters, digits, ``-`` and ``_``, a letter or digit first."""
    return re.fullmatch(_NAME, name) is not None


def check_domain_names(names: Iterable[str], where: str) -> list[str]:
    """The names as a list; raises InputError if one is ill-formed, reserved, repeated or out of order."""
    names = _check_forms(names, where)
    for name in names:
        if name in RESERVED_NAMES:
            raise InputError(f"{where}: {name!r} means a way to translate and cannot name a domain; rename the domain")
    return names


def _check_forms(names: Iterable[str], where: str) -> list[str]:
    names = list(names)
    for name in names:
        if not is_domain_name(name):
            raise InputError(f"{where}: {name!r} is no domain name; use letters, digits, '-' and '_' only")
    # A fixed order keeps row d of every stacked tensor meaning the same domain on every machine.
    if not names or names != sorted(set(names)):
        raise InputError(f"{where}: domain names must be given, sorted and differ; write {sorted(set(names))}")
    return names


def read_domain_names(path: Path) -> list[str]:
    """Read ``domains.txt`` (one name a line)."""
    if not path.is_file():
        raise InputError(f"{path}: not found; a data directory lists its domains in {DOMAINS_FILE}, one a line")
    return _check_forms(path.read_text(encoding="utf-8").split(), str(path))


def domain_tag(name: str) -> str:
    """The dictionary symbol that stands for a domain, e.g. ``<domain:LAW>``."""
    return f"<domain:{name}>"


def is_domain_tag(symbol: str) -> bool:
    """Whether a symbol is the tag of some domain."""
    return _TAG.fullmatch(symbol) is not None


def count_domain_tags(text: str) -> int:
    """How many tags, of whatever domains, a text holds as they are."""
    return len(_TAG.findall(text))
