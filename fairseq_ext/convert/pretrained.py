"""Encoders in transformers' own format, loaded without code of theirs and without sizes that their weights have not."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import torch

from fairseq_ext.convert.hugging_face import CONFIG_FILE, LARGEST_SIZE, read_json
from fairseq_ext.inputs.errors import InputError
from fairseq_ext.inputs.json_file import values_in


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


def load_pretrained(auto_class: str, name: str | Path, where: str, **options: Any) -> tuple[Any, Any]:
    """Load a tokeniser and a model.

    Returns:
        The tokeniser and the model.
    """
    import transformers

    if Path(name).is_dir():
        _check_config(Path(name))
    safely = {"trust_remote_code": False, "local_files_only": options.pop("local_files_only", False)}
    try:
        tokenizer = transformers.AutoTokenizer.from_pretrained(name, **safely)
        model = getattr(transformers, auto_class).from_pretrained(name, use_safetensors=True, **safely, **options)
    # A damaged tokeniser makes its library raise anything.
    except Exception as error:
        reason = (str(error).strip().splitlines() or ["no reason given"])[0]
        raise InputError(
            f"{where}: {str(name)!r} cannot be loaded ({reason}); give a folder with config.json, model.safetensors "
            "and a tokenizer"
        ) from None
    for key, weight in model.named_parameters():
        if not bool(torch.isfinite(weight).all()):
            raise InputError(f"{where}: {str(name)!r}: the weight {key!r} has entries that are not finite")
    return tokenizer, model


def _check_config(folder: Path) -> None:
    """Look through ``config.json`` before a model is made of it."""
    path = folder / CONFIG_FILE
    for key, value in values_in(read_json(path)):
        if "attn_implementation" in key and isinstance(value, str) and "/" in value:
            raise InputError(f"{path}: {key} {value!r} is code from the hub, which is never fetched; remove the key")
        if isinstance(value, int) and abs(value) > LARGEST_SIZE:
            raise InputError(f"{path}: {key} is {value}, more than a model has ({LARGEST_SIZE})")
