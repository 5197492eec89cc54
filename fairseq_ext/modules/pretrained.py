"""Load models in the transformers format, without running their code, after checking their configuration."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import nn

from fairseq_ext.base import json_file
from fairseq_ext.base.errors import InputError
from fairseq_ext.base.json_file import values_in

CONFIG_FILE, GGUF = "config.json", ".gguf"
# Larger than any existing model's sizes, and small enough to multiply.
LARGEST_SIZE = 1 << 24
# In order of preference; an index lists the files of a sharded model.
WEIGHT_FILES = (
    "model.safetensors",
    "model.safetensors.index.json",
    "pytorch_model.bin",
    "pytorch_model.bin.index.json",
)
_CAUSAL = ("ForCausalLM", "LMHeadModel")  # ends of the names of architectures
_CHECKED_TOKENS = 4


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


def read_json(path: Path) -> dict[str, Any]:
    """Read a JSON file of a Hugging Face directory; see :func:`fairseq_ext.base.json_file.read_json`."""
    return json_file.read_json(path, "give the folder of a Hugging Face model")


def weight_file(folder: Path) -> Path:
    """Return the file with the weights, or the index of a sharded model."""
    for name in WEIGHT_FILES:
        if (folder / name).is_file():
            return folder / name
    raise InputError(f"{folder}: has no weights; a Hugging Face model has {' or '.join(WEIGHT_FILES[::2])}")


def parts_of(path: Path) -> list[Path]:
    """Return the files that an index lists, or the single file."""
    if not path.name.endswith(".index.json"):
        return [path]
    files = read_json(path).get("weight_map")
    if not isinstance(files, dict) or not files:
        raise InputError(f"{path}: lists no files; weight_map must name the file of each tensor")
    names = sorted({str(name) for name in files.values()})
    for name in names:
        # A malicious index must not lead out of the folder.
        if Path(name).name != name:
            raise InputError(f"{path}: weight_map: {name!r} is not a file name")
        if not (path.parent / name).is_file():
            raise InputError(f"{path.parent / name}: not found; {path.name} lists it")
    return [path.parent / name for name in names]


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
    with _in_one_line(name, where):
        tokenizer = transformers.AutoTokenizer.from_pretrained(name, **safely)
        load = getattr(transformers, auto_class).from_pretrained
        model, loading = load(name, use_safetensors=True, output_loading_info=True, **safely, **options)
    if is_trained and (missing := sorted(loading["missing_keys"])):
        raise InputError(f"{where}: {str(name)!r} lacks the weight {missing[0]!r}; train it again")
    _check_finite(model, where, name)
    return tokenizer, model


# Causal language models


def load_causal_model(path: Path, dtype: torch.dtype = torch.float32) -> Any:
    """Load a causal language model, frozen and in evaluation mode.

    Args:
        path: folder with ``config.json`` and safetensors, or a GGUF file.
        dtype: precision of the weights; quantised ones are converted to it.

    Raises:
        InputError: if the model needs code of its own, is not causal, is damaged, needs more memory than there is, or
            computes its scores by more than an output layer on its last states.
    """
    config = read_causal_config(path)
    from transformers import AutoModelForCausalLM
    from transformers.utils.logging import disable_progress_bar, set_verbosity_error

    disable_progress_bar()
    set_verbosity_error()  # what a file lacks is said below, in one line
    where = str(path)
    with _in_one_line(path, where):
        _check_memory(AutoModelForCausalLM, config, dtype, where)
        loaded: Any = AutoModelForCausalLM.from_pretrained(
            **_place_of(path), config=config, dtype=dtype, use_safetensors=True, output_loading_info=True
        )
    model, info = loaded
    for problem in ("missing_keys", "unexpected_keys", "mismatched_keys"):
        if info[problem]:
            raise InputError(
                f"{where}: {problem.replace('_keys', '')} weights, such as {min(map(str, info[problem]))}; give the "
                "complete files of one model"
            )
    model.requires_grad_(False).eval()
    _check_finite(model, where, path)
    _check_output_layer(model, where)
    return model


def read_causal_config(path: Path) -> Any:
    """Read and check the configuration of a causal language model."""
    hide_broken_torchaudio()
    if not path.exists():
        raise InputError(f"{path}: not found; give the folder or GGUF file of a causal language model")
    if path.is_dir():
        _check_config(path)
    elif path.suffix != GGUF:
        raise InputError(f"{path}: expected a folder, or a file with the suffix {GGUF}")
    with _in_one_line(path, str(path)):
        from transformers import AutoConfig
        from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES

        config = AutoConfig.from_pretrained(**_place_of(path))
    named = config.architectures or [_CAUSAL[0]]
    if config.model_type not in MODEL_FOR_CAUSAL_LM_MAPPING_NAMES or not any(n.endswith(_CAUSAL) for n in named):
        raise InputError(f"{path}: {config.model_type!r} ({named[0]}) is not a causal language model; give another one")
    return config


def tokenizer_of(path: Path) -> str:
    """Return the tokenizer of a model as the text of a ``tokenizer.json``."""
    hide_broken_torchaudio()
    if (path / "tokenizer.json").is_file():
        return (path / "tokenizer.json").read_text(encoding="utf-8")
    with _in_one_line(path, str(path)):
        from transformers import AutoTokenizer

        return str(AutoTokenizer.from_pretrained(**_place_of(path)).backend_tokenizer.to_str())


def plain_config(config: Any) -> dict[str, Any]:
    """Return a configuration as JSON, without the quantisation of the file that it is from."""
    content = json.loads(config.to_json_string(use_diff=False))
    return {key: value for key, value in content.items() if key not in ("quantization_config", "_name_or_path")}


def blocks_of(model: nn.Module, number: int) -> nn.ModuleList:
    """Return the Transformer blocks of a model: its first list of ``number`` modules."""
    lists = (module for module in model.modules() if isinstance(module, nn.ModuleList) and len(module) == number)
    return next(lists)


def _place_of(path: Path) -> dict[str, Any]:
    """Return the arguments of transformers' functions that name a model on this machine."""
    safely = {"trust_remote_code": False, "local_files_only": True}
    if path.suffix == GGUF:
        return {"pretrained_model_name_or_path": str(path.parent), "gguf_file": path.name, **safely}
    return {"pretrained_model_name_or_path": str(path), **safely}


@contextmanager
def _in_one_line(name: str | Path, where: str) -> Iterator[None]:
    """Report an exception of transformers in one line."""
    try:
        yield
    except InputError:
        raise
    # The library may raise any exception for a damaged file.
    except Exception as error:
        reason = (str(error).strip().splitlines() or ["no reason given"])[0]
        is_gguf = str(name).endswith(GGUF)
        needed = "the whole file" if is_gguf else "a folder with config.json, model.safetensors and a tokenizer"
        raise InputError(f"{where}: {str(name)!r} cannot be loaded ({reason}); give {needed}") from None


def _check_config(folder: Path) -> None:
    """Check ``config.json`` and an index of weights before a model is built from them."""
    parts_of(weight_file(folder))
    path = folder / CONFIG_FILE
    content = read_json(path)
    if "auto_map" in content:
        raise InputError(f"{path}: auto_map names code of the model, which is never run; give a model of transformers")
    for key, value in values_in(content):
        if "attn_implementation" in key and isinstance(value, str) and "/" in value:
            raise InputError(
                f"{path}: {key} {value!r} names code on the hub, which is never downloaded; remove the key"
            )
        if isinstance(value, int) and abs(value) > LARGEST_SIZE:
            raise InputError(f"{path}: {key} is {value}, larger than the maximum {LARGEST_SIZE}")


def _check_finite(model: nn.Module, where: str, name: str | Path) -> None:
    for key, weight in model.named_parameters():
        if not bool(torch.isfinite(weight).all()):
            raise InputError(f"{where}: {str(name)!r}: the weight {key!r} has values that are not finite")


def _check_memory(auto_class: Any, config: Any, dtype: torch.dtype, where: str) -> None:
    """Compare the size of the weights with the free memory before any of it is used."""
    import psutil

    with torch.device("meta"):
        model = auto_class.from_config(config, dtype=dtype)
    needed, free = sum(p.numel() for p in model.parameters()) * dtype.itemsize, psutil.virtual_memory().available
    if needed > free:
        raise InputError(
            f"{where}: the weights need {needed / 2**30:.1f} GiB in {str(dtype).removeprefix('torch.')}, but only "
            f"{free / 2**30:.1f} GiB of memory are free; use --base-precision bfloat16 or a smaller model"
        )


def _check_output_layer(model: Any, where: str) -> None:
    """Check that scores are the output layer's, as some models scale or limit them afterwards."""
    tokens = torch.arange(_CHECKED_TOKENS).unsqueeze(0)
    with torch.no_grad():
        states = model.base_model(tokens, use_cache=False).last_hidden_state
        ours, theirs = model.get_output_embeddings()(states), model(tokens, use_cache=False).logits
    if not torch.allclose(ours, theirs, rtol=1e-4, atol=1e-4):
        raise InputError(f"{where}: {model.config.model_type!r} changes scores behind its output layer; give another")
