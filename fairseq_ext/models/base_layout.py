"""Layout (sizes, norms, positions, dropout) of a Transformer, and training with a base checkpoint's layout."""

from __future__ import annotations

import functools
import os
from argparse import Namespace
from collections.abc import Callable, Collection, Mapping
from typing import Any

from fairseq import checkpoint_utils
from fairseq.models import ARCH_CONFIG_REGISTRY, ARCH_MODEL_NAME_REGISTRY
from fairseq.models.transformer.transformer_legacy import base_architecture
from omegaconf import DictConfig, OmegaConf, open_dict
from torch import Tensor

from fairseq_ext.base.errors import InputError, naming
from fairseq_ext.models.checkpoints import model_options
from fairseq_ext.models.presets import Architecture
from fairseq_ext.modules.freezing import BASE_RATES
from fairseq_ext.modules.transformer_options import TRANSFORMER_OPTIONS

_SIDES = ("encoder", "decoder")
SIZES = tuple(f"{side}_{name}" for side in _SIDES for name in ("embed_dim", "ffn_embed_dim", "layers")) + (
    *("encoder_attention_heads", "decoder_attention_heads"),
    *("decoder_input_dim", "decoder_output_dim"),
)
FLAGS = tuple(f"{side}_{name}" for side in _SIDES for name in ("normalize_before", "learned_pos")) + (
    *("share_all_embeddings", "share_decoder_input_output_embed", "no_token_positional_embeddings"),
    *("no_scale_embedding", "layernorm_embedding", "no_decoder_final_norm"),
    *("no_cross_attention", "cross_self_attention"),
)
# Rates of dropout, by default those of the base: a student (distilled) is often trained without dropout, which it then
# does not tolerate.
RATES = ("dropout", "attention_dropout", "activation_dropout")
# Options that set the size of tables of learned positions; computed positions have no table.
POSITIONS = {"encoder_learned_pos": "max_source_positions", "decoder_learned_pos": "max_target_positions"}
# fairseq's default, which its tasks set even if it is not given.
_USUAL_POSITIONS = 1024
_BANK = ".adapter.bank.down_weight"
BASE_MODEL = "base_model"  # option of a base of Hugging Face, which has its own layout
# Types of options besides flags, rates and sizes.
_KINDS: Mapping[str, Any] = {
    "activation_fn": str,
    "autoregressive_layer": str,
    "layer_norm_epsilon": float,
    "zero_start": bool,
}
_EXPECTED = {int: "a positive integer", bool: "true or false", str: "text", float: "a positive number"}
# The layout of a language model, which has only a decoder.
OF_DECODER = (
    *(name for name in (*SIZES, *FLAGS) if name.startswith("decoder_")),
    *("share_decoder_input_output_embed", "no_token_positional_embeddings", "no_scale_embedding"),
    *("layernorm_embedding", "no_decoder_final_norm", "activation_fn", "max_target_positions", BASE_MODEL),
)
LORA = "lora"  # value of --adapter-form
# Options of the adapters' form, with defaults; checkpoints contain only given values.
FORM_OPTIONS: Mapping[str, Any] = {
    "adapter_form": "bottleneck",
    "lora_rank": 8,
    "lora_alpha": 16.0,
    "lora_modules": "q,v",
}


def layout_of(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the layout of a Transformer from a checkpoint's options, old or new, flat or nested."""
    args = Namespace(**{name: value for name, value in options.items() if name not in _SIDES})
    for side in _SIDES:
        for name, value in (options.get(side) or {}).items() if isinstance(options.get(side), Mapping) else ():
            setattr(args, f"{side}_{name}", value)
    # Options missing in older checkpoints take the defaults of that time.
    base_architecture(args)
    args.no_decoder_final_norm = getattr(args, "no_decoder_final_norm", False)
    args.share_decoder_input_output_embed |= args.share_all_embeddings
    positions = [name for learned, name in POSITIONS.items() if getattr(args, learned)]
    names = [*SIZES, *FLAGS, *RATES, "activation_fn", *TRANSFORMER_OPTIONS, *positions]
    layout = {name: getattr(args, name, TRANSFORMER_OPTIONS.get(name, _USUAL_POSITIONS)) for name in names}
    # fairseq parses some sizes as strings.
    layout = {name: int(v) if name in SIZES and str(v).isdecimal() else v for name, v in layout.items()}
    for name, value in layout.items():
        if expected := _expected(name, value):
            raise InputError(f"its option {name} is {value!r}; expected {expected}")
    return layout


def _expected(name: str, value: Any) -> str | None:
    """Return what the value of an option should be if it is something else."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if name in RATES:
        return None if is_number and 0 <= value < 1 else "a rate from 0 to 1"
    kind = _KINDS.get(name, bool if name in FLAGS else int)
    is_valid = isinstance(value, kind) and (kind in (bool, str) or (is_number and value > 0))
    return None if is_valid else _EXPECTED[kind]


def sized_by_base(preset: Architecture, takes_all: bool = True, names: Collection[str] | None = None) -> Architecture:
    """Return an architecture that takes the layout of ``--finetune-from-model``, if given, or else the preset's.

    Given and preset options must agree with the base, except rates.

    Args:
        preset: other architecture.
        takes_all: take more than the rates of dropout and the layout of the adapters.
        names: the options that are part of the layout; all by default.
    """

    @functools.wraps(preset)
    def architecture(args: Namespace) -> None:
        layout = _layout_of_base(args)
        layout = {name: value for name, value in layout.items() if names is None or name in names}
        for name, value in layout.items():
            is_usual = name in POSITIONS.values() and getattr(args, name, None) in (None, _USUAL_POSITIONS)
            has_no_preset = name in (*RATES, *FORM_OPTIONS, "bottleneck_dim")
            if ((takes_all or has_no_preset) and not hasattr(args, name)) or is_usual:
                setattr(args, name, value)
        preset(args)
        if layout:
            setattr(args, BASE_RATES, {name: layout.pop(name) for name in RATES if name in layout})
        _compare(args, layout)

    return architecture


def size_by_base(cfg: DictConfig, defaults: Any) -> None:
    """Take the decoder's layout of ``--finetune-from-model`` for options that have their defaults, in place.

    ``fairseq-hydra-train`` calls no architecture for models that have a dataclass.
    """
    with open_dict(cfg):
        for name, value in _layout_of_base(cfg).items():
            if name in OF_DECODER and cfg.get(name) in (getattr(defaults, name, None), None, _USUAL_POSITIONS):
                cfg[name] = value


def _path_of_base(args: Namespace | DictConfig) -> Any:
    if isinstance(args, DictConfig):  # fairseq-hydra-train keeps it in another section
        return OmegaConf.select(args._get_root(), "checkpoint.finetune_from_model")
    return getattr(args, "finetune_from_model", None)


def _layout_of_base(args: Namespace | DictConfig) -> dict[str, Any]:
    """Return the layout of the checkpoint that training starts from; empty if there is none (yet)."""
    path = _path_of_base(args)
    if not path or not os.path.isfile(path):
        return {}
    state = checkpoint_utils.load_checkpoint_to_cpu(path)
    options = model_options(state)
    adapters = _adapters_of(state["model"], options)
    if options.get(BASE_MODEL):
        return {BASE_MODEL: options[BASE_MODEL], **adapters}
    rates = options.get(BASE_RATES)
    with naming(path):
        layout = layout_of({**options, **rates} if adapters and isinstance(rates, Mapping) else options)
    return {**layout, **adapters}


def _adapters_of(weights: Mapping[str, Tensor], options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the form and size of a checkpoint's adapters, D×b×H; empty without adapters."""
    widths = {value.shape[1] for name, value in weights.items() if name.endswith(_BANK) and value.dim() == 3}
    if len(widths) != 1:
        return {}
    if str(options.get("adapter_form")) == LORA:
        return {name: options.get(name, default) for name, default in FORM_OPTIONS.items()}
    return {"adapter_form": "bottleneck", "bottleneck_dim": widths.pop()}


def _compare(args: Namespace, layout: Mapping[str, Any]) -> None:
    shares_all = getattr(args, "share_all_embeddings", False)
    for name, value in layout.items():
        chosen = getattr(args, name, TRANSFORMER_OPTIONS.get(name, False))
        if name == "bottleneck_dim" and not chosen:
            chosen = args.encoder_embed_dim // 2
        if str(chosen) != str(value) and not (name == "share_decoder_input_output_embed" and shares_all):
            model = ARCH_MODEL_NAME_REGISTRY[getattr(args, "arch", None) or args._name]
            raise InputError(
                f"{_told(name, chosen)}: the base checkpoint {_path_of_base(args)} has {_told(name, value)}; remove "
                f"options of the size and use --arch {model}, which adopts the base's size"
            )


def _told(name: str, value: Any) -> str:
    """Format an option as on the command line."""
    option = f"--{name.replace('_', '-')}"
    if isinstance(value, bool):
        return option if value else f"no {option}"
    return f"{option} {value}"


# One object, so that applying the patches twice has no effect.
_sized = functools.partial(sized_by_base, takes_all=False)


def transformer_patches() -> list[tuple[Any, str, Callable[[Any], Any]]]:
    """Let fairseq's ``--arch transformer`` take the layout of ``--finetune-from-model``, and its presets the rates."""
    names = [name for name, model in ARCH_MODEL_NAME_REGISTRY.items() if model == "transformer"]
    return [(ARCH_CONFIG_REGISTRY, name, sized_by_base if name == "transformer" else _sized) for name in names]
