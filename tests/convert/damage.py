"""Ways in which a Hugging Face directory can be damaged or hostile."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file

from tests.patches.hostile import Runs

WEIGHTS = "model.safetensors"
Spoil = Callable[[Path], Any]


def change_json(name: str, **changes: Any) -> Spoil:
    """Change keys of a file of JSON."""

    def spoil(folder: Path) -> None:
        (folder / name).write_text(json.dumps(json.loads((folder / name).read_text()) | changes))

    return spoil


def change_weight(name: str, value: torch.Tensor | None) -> Spoil:
    """Change a tensor; None removes it."""

    def spoil(folder: Path) -> None:
        weights: dict[str, Any] = {**load_file(folder / WEIGHTS), name: value}
        save_file({key: own for key, own in weights.items() if own is not None}, folder / WEIGHTS)

    return spoil


def hide_code(folder: Path) -> None:
    (folder / WEIGHTS).unlink()
    torch.save({"a.weight": Runs()}, folder / "pytorch_model.bin")


def lead_astray(folder: Path) -> None:
    (folder / WEIGHTS).unlink()
    (folder / f"{WEIGHTS}.index.json").write_text(json.dumps({"weight_map": {"a.weight": f"../{WEIGHTS}"}}))
