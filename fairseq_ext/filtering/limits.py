"""Numbers that a filter's options may have."""

from __future__ import annotations

import math

from fairseq_ext.inputs.errors import InputError


def check_limit(key: str, value: float, low: float, high: float = math.inf) -> None:
    """Check that ``low <= value <= high``.

    Raises:
        InputError: naming the key, the value and what is allowed, otherwise.
    """
    if not low <= value <= high:  # so that NaN, too, is refused
        allowed = f"{low} or more" if high == math.inf else f"{low} to {high}"
        raise InputError(f"{key}: {value} makes no sense; allowed is {allowed}")
