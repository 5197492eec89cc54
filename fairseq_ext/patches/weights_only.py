"""torch's protection against code in files of weights stays on."""

from __future__ import annotations

import os

from fairseq_ext.inputs.errors import InputError


def require_weights_only() -> None:
    """Refuse to go on where the environment switches torch's protection off.

    Raises:
        InputError: if ``TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD`` is set to a true value.
    """
    if os.environ.get("TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD", "0").lower() in {"1", "y", "yes", "true"}:
        raise InputError("TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD would run code hidden in checkpoints; unset it")
