"""Checkpoints of the published gated-adapters code (Klimaszewski et al. 2023), plain and gated."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from fairseq_ext.convert.transformer import Imported, read_transformer
from fairseq_ext.inputs.domain_names import is_domain_name
from fairseq_ext.inputs.errors import InputError, shown
from fairseq_ext.models.checkpoints import some_of
from fairseq_ext.modules.adapter_names import NAMES, names_entry

# Theirs: one module per adapter; ours: one stacked parameter per kind. Ours keeps "up" as b×H.
_KINDS = {
    "0.weight": "norm_weight", "0.bias": "norm_bias",
    "1.fc1.weight": "down_weight", "1.fc1.bias": "down_bias",
    "1.fc2.weight": "up_weight", "1.fc2.bias": "up_bias",
}  # fmt: skip
_ADAPTERS = ".adapters."
_GATE = "adapters.gating"
# What their adapters must be to be ours: a layer norm each, the residual before it, ReLU.
_PLAIN = {
    "adapter_layer_norm_per_adapter": True,
    "adapter_layer_norm": False,
    "adapter_reuse_layer_norm": False,
    "ln_before_adapter": False,
    "activation_fn": "relu",
}
_GATED = {"aggregation_func": "avg", "adapter_schedule_type": "const", "shared_gating": False}
_TYPES = ("base", "gated")


def is_published(weights: Mapping[str, Tensor]) -> bool:
    """Whether a checkpoint is one of theirs."""
    return any(_ADAPTERS in name for name in weights)


def read_published(
    weights: Mapping[str, Tensor], options: Mapping[str, Any], renamed: Mapping[str, str] | None = None
) -> Imported:
    """The model of one of their checkpoints, under our names; rows in the order of the sorted names.

    Args:
        weights: by name.
        options: the checkpoint's.
        renamed: names of adapters that are to be called otherwise; ``[TAG=LAW]`` is ``LAW`` to begin with.
    """
    is_gated = _check_options(options) == "gated"
    base = read_transformer({name: v for name, v in weights.items() if _ADAPTERS not in name}, options)
    theirs = {name: value for name, value in weights.items() if _ADAPTERS in name}
    names = _names(options.get("adapter_names"), renamed or {})
    ours = dict(base.weights)
    for side in ("encoder", "decoder"):
        for number in range(base.layout[f"{side}_layers"]):
            ours |= _layer(theirs, f"{side}.layers.{number}", names, is_gated)
    if theirs:
        raise InputError(f"{len(theirs)} unknown entries of its adapters: {some_of(theirs)}")
    ours[NAMES] = names_entry(sorted(names.values()))
    widths = {value.shape[1] for name, value in ours.items() if name.endswith("bank.down_weight")}
    extra: dict[str, Any] = {"bottleneck_dim": widths.pop()}
    if widths:
        raise InputError("its adapters differ in width from layer to layer; ours cannot")
    if is_gated:
        extra["gate_temperature"] = _temperature(options)
    arch = "transformer_gated_adapter" if is_gated else "transformer_domain_adapter"
    return Imported(arch, base.layout, ours, tuple(sorted(names.values())), tuple(names.values()), extra)


def _check_options(options: Mapping[str, Any]) -> str:
    """Return the type of the adapters."""
    kind = options.get("adapter_type")
    if kind not in _TYPES:
        raise InputError(f"its option adapter_type is {shown(kind)}, expected one of {', '.join(_TYPES)}")
    for name, value in {**_PLAIN, **(_GATED if kind == "gated" else {})}.items():
        if options.get(name) != value:
            raise InputError(f"its option {name} is {shown(options.get(name))}; adapters here are those of {value}")
    if options.get("force_using_domains"):
        raise InputError("its option force_using_domains is set, which switches its gates off; use it without")
    return str(kind)


def _temperature(options: Mapping[str, Any]) -> float:
    found = options.get("const_adapter_temperature")
    if not isinstance(found, int | float) or isinstance(found, bool) or not found > 0:
        raise InputError(f"its option const_adapter_temperature is {shown(found)}, expected a number above zero")
    return float(found)


def _names(listed: Any, renamed: Mapping[str, str]) -> dict[str, str]:
    """Their names, in their order, and ours."""
    if not isinstance(listed, list) or not listed or not all(isinstance(name, str) for name in listed):
        raise InputError(f"its option adapter_names is {shown(listed)}, expected a list of names")
    short = [name.removeprefix("[TAG=").removesuffix("]") for name in listed]
    for name in renamed:
        if name not in short:
            raise InputError(f"--rename {name}: it has no adapter of this name; it has {', '.join(short)}")
    ours = [renamed.get(name, name) for name in short]
    for name in ours:
        if not is_domain_name(name):
            raise InputError(f"its adapter {name!r} has no name for a domain; give it one by --rename {name}=NAME")
        if ours.count(name) > 1:
            raise InputError(f"two of its adapters are called {name}; give one another name by --rename")
    return dict(zip(listed, ours, strict=True))


def _layer(theirs: dict[str, Tensor], layer: str, names: Mapping[str, str], is_gated: bool) -> dict[str, Tensor]:
    """The adapters of a layer, stacked, and its gate; what is used is taken out of ``theirs``."""
    order = sorted(names, key=lambda name: names[name])
    ours = {}
    for kind, own in _KINDS.items():
        parts = [_take(theirs, f"{layer}{_ADAPTERS}adapter_modules.{name}.{kind}", kind) for name in order]
        if any(part.shape != parts[0].shape for part in parts):
            raise InputError(f"the adapters of {layer} differ in size; ours cannot")
        ours[f"{layer}.adapter.bank.{own}"] = torch.stack([p.t() for p in parts] if own == "up_weight" else parts)
    if is_gated:
        if f"{layer}.{_GATE}.bias" in theirs:
            raise InputError(f"{layer}.{_GATE}.bias: ours have gates without a bias; it cannot be imported")
        gate = _take(theirs, f"{layer}.{_GATE}.weight", ".weight")
        if len(gate) != len(order):
            raise InputError(f"{layer}.{_GATE}.weight has {len(gate)} rows for {len(order)} adapters")
        rows = [list(names).index(name) for name in order]
        ours[f"{layer}.adapter.router.weight"] = gate[torch.tensor(rows)]
    return ours


def _take(theirs: dict[str, Tensor], name: str, kind: str) -> Tensor:
    value = theirs.pop(name, None)
    dimensions = 2 if re.search(r"(fc\d|^)\.weight$", kind) else 1
    if value is None:
        raise InputError(f"lacks {name}; it is damaged")
    if value.dim() != dimensions:
        raise InputError(f"{name} has the shape {tuple(value.shape)}, expected {dimensions} dimensions")
    return value
