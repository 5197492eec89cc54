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


def change_json(name: str, **changes: Any) -> Spoil:
    """Change keys of a file of JSON."""

    def spoil(folder: Path) -> None:
        (folder / name).write_text(json.dumps(json.loads((folder / name).read_text()) | changes))

    return spoil


def change_weight(name: str, value: torch.Tensor | None) -> Spoil:
    """Change a tensor; None removes it."""

    def spoil(folder: Path) -> None:
        weights: dict[str, Any] = {**load_file(folder / "model.safetensors"), name: value}
        save_file({key: own for key, own in weights.items() if own is not None}, folder / "model.safetensors")

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
