"""To be called before the first ``import transformers``, which looks for torchaudio only once."""

from __future__ import annotations

import sys


def hide_broken_torchaudio() -> None:
    """Let transformers do without torchaudio if that cannot be loaded.

    fairseq asks pip for torchaudio, by default one for GPUs; beside a torch for CPUs importing it fails,
    and with it every model of transformers, text models included. ``scripts/env.sh`` leaves it out, but
    this may be another environment.
    """
    try:
        import torchaudio  # noqa: F401
    except (ImportError, OSError):
        # To importlib, hence to transformers, this means "not installed".
        sys.modules["torchaudio"] = None  # type: ignore[assignment]
