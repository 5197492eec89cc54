"""Where classifiers compute."""

from __future__ import annotations

import torch

from fairseq_ext.inputs.errors import InputError

_DEVICES = ("auto", "cpu", "cuda")
_PRECISIONS = ("auto", "float32", "bfloat16")


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


def choose_precision(name: str, device: str) -> torch.dtype:
    """In what numbers a classifier computes its labels; ``auto`` takes bfloat16 where the device has units for it.

    Raises:
        InputError: if the precision is unknown.
    """
    check_precision(name)
    if name == "auto":
        name = "bfloat16" if _has_bfloat16(device) else "float32"
    return torch.bfloat16 if name == "bfloat16" else torch.float32


def check_precision(name: str) -> None:
    """Raise if it is none that a classifier can have.

    Raises:
        InputError: naming those that it can.
    """
    if name not in _PRECISIONS:
        raise InputError(f"teacher.precision: {name!r} is unknown; choose one of {', '.join(_PRECISIONS)}")


def _has_bfloat16(device: str) -> bool:
    if device == "cuda":
        return torch.cuda.is_bf16_supported(including_emulation=False)
    return torch.cpu._is_avx512_bf16_supported() or torch.cpu._is_amx_tile_supported()
