"""Write tensors to safetensors files."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from safetensors.torch import save_file
from torch import Tensor


def write_tensors(path: Path, tensors: Mapping[str, Tensor], metadata: dict[str, str] | None = None) -> None:
    """Write tensors with the permissions of any new file; safetensors itself keeps its files private."""
    path.touch()
    permissions = path.stat().st_mode
    save_file({name: value.contiguous() for name, value in tensors.items()}, path, metadata)
    path.chmod(permissions)
