"""Load causal language models of Hugging Face as bases, and run them alike, whatever their architecture."""

from __future__ import annotations

import json
from inspect import signature
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from fairseq_ext.base.errors import InputError
from fairseq_ext.modules.pretrained import (
    GGUF,
    LARGEST_SIZE,
    check_config,
    check_finite,
    hide_broken_torchaudio,
    in_one_line,
    reason_of,
)

_CAUSAL = ("ForCausalLM", "LMHeadModel")  # ends of the names of architectures
_CHECKED_TOKENS = 4


def load_causal_model(path: Path, dtype: torch.dtype = torch.float32) -> Any:
    """Load a causal language model, frozen and in evaluation mode.

    Args:
        path: folder with ``config.json`` and safetensors, or a GGUF file.
        dtype: precision of the weights; quantised ones are converted to it.

    Raises:
        InputError: if the model needs code of its own, is not causal, is damaged, needs more memory than there is, or
            cannot be run by :func:`next_states` and :func:`scores_of`.
    """
    config = read_causal_config(path)
    from transformers import AutoModelForCausalLM
    from transformers.utils.logging import disable_progress_bar, set_verbosity_error

    disable_progress_bar()
    set_verbosity_error()  # what a file lacks is said below, in one line
    where = str(path)
    with in_one_line(path, where):
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
    check_finite(model, where, path)
    _check_scores(model, where)
    return model


def read_causal_config(path: Path) -> Any:
    """Read and check the configuration of a causal language model."""
    hide_broken_torchaudio()
    if not path.exists():
        raise InputError(f"{path}: not found; give the folder or GGUF file of a causal language model")
    if path.is_dir():
        check_config(path)
    elif path.suffix != GGUF:
        raise InputError(f"{path}: expected a folder, or a file with the suffix {GGUF}")
    with in_one_line(path, str(path)):
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
    with in_one_line(path, str(path)):
        from transformers import AutoTokenizer

        return str(AutoTokenizer.from_pretrained(**_place_of(path)).backend_tokenizer.to_str())


def plain_config(config: Any) -> dict[str, Any]:
    """Return a configuration as JSON, without the quantisation of the file that it is from."""
    content = json.loads(config.to_json_string(use_diff=False))
    return {key: value for key, value in content.items() if key not in ("quantization_config", "_name_or_path")}


def blocks_of(model: Any) -> nn.ModuleList:
    """Return the blocks of a model: its first list of as many modules as it has layers."""
    number = model.config.num_hidden_layers
    for module in model.modules():
        if isinstance(module, nn.ModuleList) and len(module) == number:
            return module
    raise ValueError("its layers are not one list")


def longest_text(config: Any) -> int:
    """Return the maximum number of tokens of a text; models without position embeddings have none."""
    lengths = (getattr(config, name, None) for name in ("max_position_embeddings", "max_seq_len"))
    return next((int(length) for length in lengths if length), LARGEST_SIZE)


def new_cache(model: Any) -> Any:
    """Return an empty cache of transformers for a model."""
    from transformers import DynamicCache

    return DynamicCache(config=model.config)


def next_states(model: Any, tokens: Tensor, cache: Any = None) -> Tensor:
    """Return the last states of tokens, which follow those in the cache: B×T → B×T×H."""
    body = model.base_model
    if cache is None:
        return body(tokens, use_cache=False).last_hidden_state
    for name in ("past_key_values", "cache_params"):  # the second: of state-space models
        if name in signature(body.forward).parameters:
            return body(tokens, use_cache=True, **{name: cache}).last_hidden_state
    raise ValueError("it has no cache of the usual form")


def scores_of(model: Any, states: Tensor) -> Tensor:
    """Return the scores of all tokens after states: B×T×H → B×T×V."""
    scores = model.get_output_embeddings()(states)
    scale, limit = _scale_of(model.config), _limit_of(model.config)
    if scale != 1:
        scores = scores * scale
    return limit * (scores / limit).tanh() if limit else scores


def has_plain_scores(model: Any) -> bool:
    """Return whether scores are products of states and output embeddings."""
    has_bias = model.get_output_embeddings().bias is not None
    return not (has_bias or _scale_of(model.config) != 1 or _limit_of(model.config))


def _scale_of(config: Any) -> float:
    """Return the scale of scores, as Cohere and Granite name it."""
    multiplied, divided = (getattr(config, name, None) or 1 for name in ("logit_scale", "logits_scaling"))
    return float(multiplied / divided)


def _limit_of(config: Any) -> float | None:
    """Return the limit of scores, as Gemma and RecurrentGemma name it."""
    return getattr(config, "final_logit_softcapping", None) or getattr(config, "logits_soft_cap", None)


def are_alike(ours: Tensor, expected: Tensor) -> bool:
    """Return whether scores differ by no more than their precision."""
    # Of the largest score. Rounding to bfloat16 can change the choice of experts.
    tolerance = 1e-3 if expected.dtype == torch.float32 else 0.25
    return bool((ours - expected).abs().max() <= tolerance * expected.abs().max())


def _place_of(path: Path) -> dict[str, Any]:
    """Return the arguments of transformers' functions that name a model on this machine."""
    safely = {"trust_remote_code": False, "local_files_only": True}
    if path.suffix == GGUF:
        return {"pretrained_model_name_or_path": str(path.parent), "gguf_file": path.name, **safely}
    return {"pretrained_model_name_or_path": str(path), **safely}


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


@torch.no_grad()
def _check_scores(model: Any, where: str) -> None:
    """Check that a model has blocks, and that :func:`scores_of` and :func:`next_states` give its scores."""
    kind = model.config.model_type
    text = torch.arange(_CHECKED_TOKENS)
    rows, swapped = torch.stack([text, text.flip(0)]), torch.tensor([1, 0])
    try:
        blocks_of(model)
        expected, cache = model(rows, use_cache=False).logits, new_cache(model)
        whole = scores_of(model, next_states(model, rows))
        steps = [next_states(model, tokens, cache) for tokens in rows[:, :-1].split(1, 1)]
        cache.reorder_cache(swapped)  # as in a beam
        steps.append(next_states(model, rows[swapped, -1:], cache)[swapped])
        stepwise = scores_of(model, torch.cat(steps, 1))
    # Each architecture has code of its own.
    except Exception as error:
        precision = str(model.dtype).removeprefix("torch.")
        raise InputError(
            f"{where}: {kind!r} cannot be a base in {precision} ({reason_of(error)}); give another model or precision"
        ) from None
    if not are_alike(whole, expected):
        raise InputError(f"{where}: {kind!r} changes scores behind its output layer; give another")
    if not are_alike(stepwise, expected):
        raise InputError(f"{where}: {kind!r} has other scores token by token than in a whole text; give another")
