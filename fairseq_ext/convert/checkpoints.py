"""Import checkpoints of fairseq and its forks, and export a domain as a plain fairseq checkpoint.

An exported domain is a plain Transformer, for tools without support for adapters. LoRA is linear, and is added to the
weights of its layer. A bottleneck adapter has a ReLU between its projections, so it cannot be merged. But after a
pre-norm layer, it equals the feed-forward block of an additional layer: ``x + up(relu(down(norm(x))))``. So a model of
L layers with adapters becomes one of 2·L layers without, in which the attention of every second layer adds zero.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from fairseq_ext.base.errors import InputError, naming, shown
from fairseq_ext.base.fairseq_cli import quieten_fairseq
from fairseq_ext.convert.fairseq_model import Imported, read_transformer
from fairseq_ext.models.base_layout import FORM_OPTIONS, LORA
from fairseq_ext.modules.adapter_names import NAMES, read_names
from fairseq_ext.modules.freezing import is_adapter_key
from fairseq_ext.patches.checkpoints import read_foreign_checkpoint

OPTIONS_FILE = "options.txt"
# fairseq tasks with language tokens, and our names for the tokens' positions.
_MBART_TASKS = ("translation_from_pretrained_bart", "multilingual_denoising")
_MANY = "translation_multi_simple_epoch"
_STYLES = {"multilingual": "m2m", "mbart": "mbart50"}
_LANGUAGE_TOKENS = {"encoder_langtok": "src", "decoder_langtok": True, "lang_tok_replacing_bos_eos": False}
_LAYER = re.compile(r"(encoder|decoder)\.layers\.(\d+)\.(.+)")
_ARCH = "transformer_domain_adapter"
_BANK = "adapter.bank."
_DOWN, _UP = f".{_BANK}down_weight", f".{_BANK}up_weight"  # of LoRA, next to a linear layer's weight
_KINDS = {
    "fc1.weight": "down_weight", "fc1.bias": "down_bias", "fc2.weight": "up_weight", "fc2.bias": "up_bias",
    "final_layer_norm.weight": "norm_weight", "final_layer_norm.bias": "norm_bias",
}  # fmt: skip


def import_checkpoint(source: Path, folder: Path) -> None:
    """Write ``model.pt`` to an existing folder, and ``options.txt`` if the base needs language tokens."""
    quieten_fairseq()
    imported, options = read_base(source)
    imported.write(folder, _languages(options))
    if line := language_options(options):
        (folder / OPTIONS_FILE).write_text(" ".join(line) + "\n", encoding="utf-8")


def export_domain(checkpoint: Path, domain: str, folder: Path) -> None:
    """Write one domain of a checkpoint with plain adapters as a plain Transformer."""
    quieten_fairseq()
    weights, options = read_foreign_checkpoint(checkpoint)
    with naming(checkpoint):
        adapted = read_own(weights, options)
        adapted.check_shapes()
        plain = unfold(adapted, domain)
        plain.check_shapes()
    plain.write(folder, _languages(options))


def read_base(path: Path) -> tuple[Imported, dict[str, Any]]:
    """Return the base model of a checkpoint, with checked shapes, and its options."""
    weights, options = read_foreign_checkpoint(path)
    with naming(path):
        if any(is_adapter_key(name) for name in weights):
            raise InputError("has adapters; give the model that they were trained on")
        language_options(options)
        imported = read_transformer(weights, options)
        imported.check_shapes()
    return imported, options


def language_options(options: Mapping[str, Any]) -> list[str]:
    """Return the options for training adapters with the base's language tokens; empty without language tokens."""
    task = options.get("task", options.get("_name"))
    if task not in (*_MBART_TASKS, _MANY):
        return []
    style = "mbart" if task != _MANY else _STYLES.get(str(options.get("lang_tok_style", "multilingual")))
    wrong = [name for name, wanted in _LANGUAGE_TOKENS.items() if options.get(name, wanted) != wanted]
    if task == _MANY and (wrong or style is None):
        name = (wrong or ["lang_tok_style"])[0]
        raise InputError(
            f"its option {name} is {shown(options.get(name))}, which is not supported; only models trained with "
            "--encoder-langtok src --decoder-langtok can be imported"
        )
    names = options.get("langs") or []
    names = names if isinstance(names, str) else ",".join(map(str, names))
    return ["--language-tokens", str(style), *(["--langs", names] if names else [])]


def _languages(options: Mapping[str, Any]) -> list[str | None]:
    found = [options.get(name) for name in ("source_lang", "target_lang")]
    return [language if isinstance(language, str) else None for language in found]


def read_own(weights: Mapping[str, Tensor], options: Mapping[str, Any]) -> Imported:
    """Return the model of one of this project's checkpoints with plain adapters."""
    if NAMES not in weights:
        raise InputError(
            f"has no entry {NAMES} with the names of its adapters; give a checkpoint with adapters of this version"
        )
    adapters = {name: value for name, value in weights.items() if is_adapter_key(name) and name != NAMES}
    if any(".router." in name for name in adapters):
        raise InputError("its adapters are gated, and each depends on the others; only plain adapters can be exported")
    names = tuple(read_names(weights[NAMES]))
    others = {name: value for name, value in weights.items() if name not in adapters and name != NAMES}
    base = read_transformer(others, options)
    extra = _form(adapters, {**FORM_OPTIONS, **options})
    return Imported(_ARCH, base.layout, {**base.weights, **adapters, NAMES: weights[NAMES]}, names, extra)


def _form(adapters: Mapping[str, Tensor], options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options that describe the form of the adapters."""
    width = next(value.shape[1] for name, value in adapters.items() if name.endswith("bank.down_weight"))
    if options["adapter_form"] != LORA:
        return {"bottleneck_dim": width}
    alpha, modules = float(options["lora_alpha"]), str(options["lora_modules"])
    return {"adapter_form": LORA, "lora_rank": width, "lora_alpha": alpha, "lora_modules": modules}


def unfold(model: Imported, name: str) -> Imported:
    """Return a plain Transformer that computes the same as a model with plain adapters for one domain."""
    if name not in model.names:
        raise InputError(f"has no adapter {name}; it has {', '.join(model.names) or 'none'}")
    if model.options.get("adapter_form") == LORA:
        return _added(model, model.names.index(name))
    _check(model)
    weights: dict[str, Tensor] = {}
    for key, value in model.weights.items():
        found = _LAYER.fullmatch(key)
        if found is None:
            weights.update({} if key == NAMES else {key: value})
        elif not found[3].startswith(_BANK):
            side, number, part = found[1], int(found[2]), found[3]
            weights[f"{side}.layers.{2 * number}.{part}"] = value
            bank = f"{side}.layers.{number}.{_BANK}"
            adapter = {kind: model.weights[bank + kind][model.names.index(name)] for kind in _KINDS.values()}
            weights[f"{side}.layers.{2 * number + 1}.{part}"] = _as_layer(part, value, adapter)
    layers = {f"{side}_layers": 2 * model.layout[f"{side}_layers"] for side in ("encoder", "decoder")}
    return Imported("transformer", {**model.layout, **layers}, weights)


def _added(model: Imported, row: int) -> Imported:
    """Add the LoRA of one domain to the base's weights: W + α/r · BA."""
    weights = {key: value for key, value in model.weights.items() if key != NAMES and not is_adapter_key(key)}
    scale = model.options["lora_alpha"] / model.options["lora_rank"]
    for key in (key for key in model.weights if key.endswith(_DOWN)):
        down, up = (model.weights[key.replace(_DOWN, name)][row].double() for name in (_DOWN, _UP))
        base = key.replace(_DOWN, ".weight")
        weights[base] = (weights[base] + scale * up.t() @ down).to(weights[base].dtype)
    return Imported("transformer", model.layout, weights)


def _as_layer(part: str, like: Tensor, adapter: Mapping[str, Tensor]) -> Tensor:
    """Return one parameter of the layer that replaces an adapter; zero if the adapter does not have it.

    Shape:
        adapter: down b×H, up b×H; parameters of the layer: fc1 F×H, fc2 H×F, F ≥ b
    """
    value = torch.zeros_like(like)
    if part not in _KINDS:
        return value
    given = adapter[_KINDS[part]]
    if part == "fc2.weight":
        value[:, : len(given)] = given.t()
    else:
        value[: len(given)] = given
    return value


def _check(model: Imported) -> None:
    layout: Mapping[str, Any] = model.layout
    for side in ("encoder", "decoder"):
        if not layout[f"{side}_normalize_before"]:
            raise InputError(
                f"its {side} is post-norm, so its adapters cannot become layers; train LoRA (--adapter-form lora)"
            )
        if layout[f"{side}_ffn_embed_dim"] < model.options["bottleneck_dim"]:
            raise InputError(
                f"its bottleneck_dim is {model.options['bottleneck_dim']}, more than {side}_ffn_embed_dim "
                f"({layout[f'{side}_ffn_embed_dim']}); only narrower adapters can become layers"
            )
    if layout["activation_fn"] != "relu":
        raise InputError(
            f"its layers have the activation {layout['activation_fn']}, but its adapters relu; only models "
            "whose layers have relu can be exported"
        )
