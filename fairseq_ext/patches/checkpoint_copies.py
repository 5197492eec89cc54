"""fairseq's copies of a checkpoint appear when they are complete, as the checkpoint itself does."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from fairseq.file_io import PathManager


def copy_checkpoints_whole() -> None:
    """Copy beside the place and rename.

    fairseq saves one checkpoint and copies that over ``checkpoint_last.pt``, where training goes on from; a kill within
    the copy would leave neither the old nor the new one.
    """
    if not hasattr(PathManager.copy, "__wrapped__"):
        PathManager.copy = staticmethod(_copying_whole(PathManager.copy))


def _copying_whole(copy: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(copy)
    def copy_whole(src_path: str, dst_path: str, overwrite: bool = False) -> Any:
        if not PathManager.supports_rename(dst_path):
            return copy(src_path, dst_path, overwrite)
        copied = copy(src_path, f"{dst_path}.tmp", overwrite)
        PathManager.rename(f"{dst_path}.tmp", dst_path)
        return copied

    return copy_whole
