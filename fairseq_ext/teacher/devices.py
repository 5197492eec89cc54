"""Where classifiers compute."""

from __future__ import annotations

import torch

from fairseq_ext.inputs.errors import InputError

_DEVICES = ("auto", "cpu", "cuda")


def choose_device(name: str) -> str:
    """``cpu`` or ``cuda``, of which ``auto`` takes the second where there is one.

    Raises:
        InputError: if the device is unknown or absent.
    """
    if name not in _DEVICES:
        raise InputError(f"teacher.device: {name!r} is unknown; choose one of {', '.join(_DEVICES)}")
    has_gpu = torch.cuda.is_available()
    if name == "cuda" and not has_gpu:
        raise InputError("teacher.device: this machine has no CUDA device; choose cpu or auto")
    return ("cuda" if has_gpu else "cpu") if name == "auto" else name
