"""Ways in which a Hugging Face directory can be damaged or hostile."""

from __future__ import annotations

import json
import os
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file

Spoil = Callable[[Path], Any]


def change_config(**changes: Any) -> Spoil:
    """Change keys of ``config.json``; ``...`` removes one."""

    def spoil(folder: Path) -> None:
        config = json.loads((folder / "config.json").read_text()) | changes
        kept = {key: value for key, value in config.items() if value is not ...}
        (folder / "config.json").write_text(json.dumps(kept))

    return spoil


def change_weights(**changes: torch.Tensor | None) -> Spoil:
    """Change tensors, or remove them by None; two underscores are a dot."""

    def spoil(folder: Path) -> None:
        weights: dict[str, Any] = load_file(folder / "model.safetensors")
        weights |= {name.replace("__", "."): value for name, value in changes.items()}
        kept = {name: value for name, value in weights.items() if value is not None}
        save_file(kept, folder / "model.safetensors")

    return spoil


def cut_weights(folder: Path) -> None:
    content = (folder / "model.safetensors").read_bytes()
    (folder / "model.safetensors").write_bytes(content[: len(content) // 2])


class _Malice:
    def __reduce__(self) -> tuple:
        return os.system, ("touch MALICE",)


def hide_code(folder: Path) -> None:
    (folder / "model.safetensors").unlink()
    (folder / "pytorch_model.bin").write_bytes(pickle.dumps({"a.weight": _Malice()}, protocol=2))


def lead_astray(folder: Path) -> None:
    (folder / "model.safetensors").unlink()
    (folder / "model.safetensors.index.json").write_text('{"weight_map": {"a.weight": "../model.safetensors"}}')
