"""Language codes, as used in file names and fairseq's split names, and properties of languages' writing systems."""

from __future__ import annotations

import re

from fairseq_ext.inputs.errors import InputError

# Codes as they occur in corpora: pl, pt_BR, zh-Hans, sr@latin, eng_Latn.
_CODE = re.compile(r"[A-Za-z][A-Za-z0-9]{0,15}(?:[-_@][A-Za-z0-9]{1,16}){0,3}")
# Codes with two and with three letters.
_CHINESE = frozenset({"cmn", "yue", "zh", "zho"})
_WITHOUT_SPACES = _CHINESE | {"bo", "bod", "dz", "dzo", "ja", "jpn", "khm", "km", "lao", "lo", "my", "mya", "th", "tha"}


def check_language(code: str, where: str) -> None:
    """Check that a text has the form of a language code."""
    if _CODE.fullmatch(code) is None:
        raise InputError(f"{where}: {code!r} is not a language code; give one such as pl, pt_BR or zh-Hans")


def base_language(code: str) -> str:
    """Return the language of a code without region or script: ``pt`` for ``pt_BR``, ``sr`` for ``sr@latin``."""
    return re.split("[-_@]", code)[0].lower()


def has_spaces(code: str) -> bool:
    """Return whether a language separates words by spaces, so that counting words is meaningful."""
    return base_language(code) not in _WITHOUT_SPACES


def is_chinese(code: str) -> bool:
    """Return whether a code is of a Chinese language written in Han characters."""
    return base_language(code) in _CHINESE
