"""Where classifiers compute, and in which precision."""

from __future__ import annotations

import torch

from fairseq_ext.inputs.errors import InputError


def choose_device(name: str) -> str:
    """``cpu`` or ``cuda``, of which ``auto`` takes the second where there is one."""
    has_gpu = torch.cuda.is_available()
    if name == "cuda" and not has_gpu:
        raise InputError("teacher.device: this machine has no CUDA device; choose cpu or auto")
    return ("cuda" if has_gpu else "cpu") if name == "auto" else name


def choose_precision(name: str, device: str) -> torch.dtype:
    """The numbers that a classifier computes its labels in; ``auto`` is bfloat16 where the device has units for it."""
    if name == "auto":
        name = "bfloat16" if _has_bfloat16(device) else "float32"
    return torch.bfloat16 if name == "bfloat16" else torch.float32


def _has_bfloat16(device: str) -> bool:
    if device == "cuda":
        return torch.cuda.is_bf16_supported(including_emulation=False)
    return torch.cpu._is_avx512_bf16_supported() or torch.cpu._is_amx_tile_supported()
