"""Load encoders in the transformers format, without running their code, after checking their configuration."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import torch

from fairseq_ext.convert.hugging_face import CONFIG_FILE, LARGEST_SIZE, input_files, read_json
from fairseq_ext.inputs.errors import InputError
from fairseq_ext.inputs.json_file import values_in


def hide_broken_torchaudio() -> None:
    """Make transformers work without torchaudio if it cannot be imported.

    fairseq requires torchaudio, and pip installs a build for GPUs by default. With a CPU build of torch, importing it
    fails, and so does importing any transformers model, even for text. ``scripts/env.sh`` leaves torchaudio out, but
    this may be another environment.
    """
    try:
        import torchaudio  # noqa: F401
    except (ImportError, OSError):
        # importlib, and hence transformers, treats this as "not installed".
        sys.modules["torchaudio"] = None  # type: ignore[assignment]


def load_pretrained(
    auto_class: str, name: str | Path, where: str, *, is_trained: bool = False, **options: Any
) -> tuple[Any, Any]:
    """Load a tokenizer and a model.

    Args:
        is_trained: whether the model must have all its weights; others start with a new, random head.

    Returns:
        The tokenizer and the model.
    """
    import transformers

    if Path(name).is_dir():
        _check_config(Path(name))
    safely = {"trust_remote_code": False, "local_files_only": options.pop("local_files_only", False)}
    try:
        tokenizer = transformers.AutoTokenizer.from_pretrained(name, **safely)
        load = getattr(transformers, auto_class).from_pretrained
        model, loading = load(name, use_safetensors=True, output_loading_info=True, **safely, **options)
    # The library may raise any exception for a damaged tokenizer.
    except Exception as error:
        reason = (str(error).strip().splitlines() or ["no reason given"])[0]
        raise InputError(
            f"{where}: {str(name)!r} cannot be loaded ({reason}); give a folder with config.json, model.safetensors "
            "and a tokenizer"
        ) from None
    if is_trained and (missing := sorted(loading["missing_keys"])):
        raise InputError(f"{where}: {str(name)!r} lacks the weight {missing[0]!r}; train it again")
    for key, weight in model.named_parameters():
        if not bool(torch.isfinite(weight).all()):
            raise InputError(f"{where}: {str(name)!r}: the weight {key!r} has values that are not finite")
    return tokenizer, model


def _check_config(folder: Path) -> None:
    """Check ``config.json`` and an index of weights before a model is built from them."""
    input_files(folder, ())
    path = folder / CONFIG_FILE
    for key, value in values_in(read_json(path)):
        if "attn_implementation" in key and isinstance(value, str) and "/" in value:
            raise InputError(
                f"{path}: {key} {value!r} names code on the hub, which is never downloaded; remove the key"
            )
        if isinstance(value, int) and abs(value) > LARGEST_SIZE:
            raise InputError(f"{path}: {key} is {value}, larger than the maximum {LARGEST_SIZE}")
