"""Codes of languages, which are parts of file names and of fairseq's split names."""

from __future__ import annotations

import re

from fairseq_ext.inputs.errors import InputError

# As corpora write them: pl, pt_BR, zh-Hans, sr@latin, eng_Latn.
_CODE = re.compile(r"[A-Za-z][A-Za-z0-9]{0,15}(?:[-_@][A-Za-z0-9]{1,16}){0,3}")


def check_language(code: str, where: str) -> None:
    """Check that a code can be one of a language.

    Raises:
        InputError: naming ``where``, otherwise.
    """
    if _CODE.fullmatch(code) is None:
        raise InputError(f"{where}: {code!r} is no code of a language; give one such as pl, pt_BR or zh-Hans")
