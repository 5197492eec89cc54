"""Codes of languages, which are parts of file names and of fairseq's split names, and what they say of words."""

from __future__ import annotations

import re

from fairseq_ext.inputs.errors import InputError

# As corpora write them: pl, pt_BR, zh-Hans, sr@latin, eng_Latn.
_CODE = re.compile(r"[A-Za-z][A-Za-z0-9]{0,15}(?:[-_@][A-Za-z0-9]{1,16}){0,3}")
# With two letters, and with three.
_CHINESE = frozenset({"cmn", "yue", "zh", "zho"})
_WITHOUT_SPACES = _CHINESE | {"bo", "bod", "dz", "dzo", "ja", "jpn", "khm", "km", "lao", "lo", "my", "mya", "th", "tha"}


def check_language(code: str, where: str) -> None:
    """Check that a code can be one of a language."""
    if _CODE.fullmatch(code) is None:
        raise InputError(f"{where}: {code!r} is no code of a language; give one such as pl, pt_BR or zh-Hans")


def base_language(code: str) -> str:
    """The language of a code with a region or script behind it: ``pt`` of ``pt_BR``, ``sr`` of ``sr@latin``."""
    return re.split("[-_@]", code)[0].lower()


def has_spaces(code: str) -> bool:
    """Whether words are separated by spaces, so that counting words means something."""
    return base_language(code) not in _WITHOUT_SPACES


def is_chinese(code: str) -> bool:
    """Whether it is a language of China's that is written in Han characters."""
    return base_language(code) in _CHINESE
