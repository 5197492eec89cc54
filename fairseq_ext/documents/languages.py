"""Languages as documents name them."""

from __future__ import annotations

from fairseq_ext.inputs.errors import InputError, shown


def base(code: str) -> str:
    """``de`` of ``de_AT`` and ``DE``."""
    return code.replace("_", "-").partition("-")[0].lower()


def check_language(found: str, wanted: str, where: str) -> None:
    """Check that a document is in a language of a system.

    Raises:
        InputError: if it is in another.
    """
    if base(found) != base(wanted):
        raise InputError(f"{where} is {shown(found)}, and the system has {wanted}; choose another system")
