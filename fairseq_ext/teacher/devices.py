"""Where classifiers compute, and in which precision."""

from __future__ import annotations

import torch

from fairseq_ext.inputs.errors import InputError
from fairseq_ext.inputs.sections import check_choice


def choose_device(name: str) -> str:
    """``cpu`` or ``cuda``, of which ``auto`` takes the second where there is one."""
    check_choice(name, ("auto", "cpu", "cuda"), "teacher.device")
    has_gpu = torch.cuda.is_available()
    if name == "cuda" and not has_gpu:
        raise InputError("teacher.device: this machine has no CUDA device; choose cpu or auto")
    return ("cuda" if has_gpu else "cpu") if name == "auto" else name


def choose_precision(name: str, device: str) -> torch.dtype:
    """The numbers that a classifier computes its labels in; ``auto`` is bfloat16 where the device has units for it."""
    check_precision(name)
    if name == "auto":
        name = "bfloat16" if _has_bfloat16(device) else "float32"
    return torch.bfloat16 if name == "bfloat16" else torch.float32


def check_precision(name: str) -> None:
    """Raise InputError unless a classifier can compute in it."""
    check_choice(name, ("auto", "float32", "bfloat16"), "teacher.precision")


def _has_bfloat16(device: str) -> bool:
    if device == "cuda":
        return torch.cuda.is_bf16_supported(including_emulation=False)
    return torch.cpu._is_avx512_bf16_supported() or torch.cpu._is_amx_tile_supported()
