"""Unicode's normal forms, in time that does not grow with the square of a text's length."""

from __future__ import annotations

import unicodedata
from typing import Literal

import regex

_MAX_MARKS = 1000
_MANY_MARKS = regex.compile(rf"\p{{M}}{{{_MAX_MARKS}}}")

Form = Literal["NFC", "NFKC"]


def normal_form(form: Form, text: str) -> str:
    """Bring a text to a normal form, unless it has a thousand combining marks in a row.

    No text has; and Python sorts those that follow each other in time quadratic in their number.
    """
    if len(text) > _MAX_MARKS and _MANY_MARKS.search(text):
        return text
    return unicodedata.normalize(form, text)
