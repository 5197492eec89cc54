"""Plain adapters of several checkpoints on the same base, as one bank."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from fairseq_ext.convert.transformer import Imported, read_transformer
from fairseq_ext.inputs.errors import InputError, shown
from fairseq_ext.models.adapter_transformer import TranslationAdapterConfig
from fairseq_ext.models.base_layout import FORM_OPTIONS, LORA
from fairseq_ext.training.adapter_names import NAMES, names_entry, read_names
from fairseq_ext.training.freezing import is_adapter_key

ARCH = "transformer_domain_adapter"


@dataclass(frozen=True)
class Source:
    """A checkpoint with adapters, and which of them are wanted.

    Attributes:
        path: of the checkpoint.
        model: what it holds.
        name: the only adapter that is wanted; None for all.
    """

    path: Path
    model: Imported
    name: str | None = None

    def rows(self) -> dict[str, int]:
        """The wanted names, and the row of each; a single adapter takes whatever name is wanted."""
        names = self.model.names
        if self.name is None:
            return {name: row for row, name in enumerate(names)}
        if self.name not in names and len(names) > 1:
            raise InputError(f"{self.path}: has no adapter {self.name}; it has {', '.join(names)}")
        return {self.name: names.index(self.name) if self.name in names else 0}


def read_own(weights: Mapping[str, Tensor], options: Mapping[str, Any]) -> Imported:
    """The model of a checkpoint of this project's, with plain adapters."""
    entries = dict(weights)
    named = entries.pop(NAMES, None)
    if named is None:
        raise InputError(
            f"it has adapters but no entry {NAMES} that names them; it is of an earlier version or damaged"
        )
    names = read_names(named)
    base = read_transformer({name: value for name, value in entries.items() if not is_adapter_key(name)}, options)
    adapters = {name: value for name, value in entries.items() if is_adapter_key(name)}
    for name, value in adapters.items():
        if ".bank." in name and (value.dim() < 2 or len(value) != len(names)):
            raise InputError(f"{name} has the shape {tuple(value.shape)} for {len(names)} adapters; it is damaged")
    if any(".router." in name for name in adapters):
        raise InputError("its adapters are gated, trained for each other; only plain ones can be taken apart")
    extra = _form(adapters, options)
    return Imported(ARCH, base.layout, {**base.weights, **adapters, NAMES: named}, tuple(names), tuple(names), extra)


def merge(sources: Sequence[Source]) -> Imported:
    """One bank of the adapters of all sources, in the order of their names."""
    first = sources[0]
    for source in sources:
        if source.model.arch != ARCH:
            raise InputError(f"{source.path}: its adapters are gated, for each other; only plain ones can be merged")
        _check_base(first, source)
    places: dict[str, tuple[Source, int]] = {}
    for source in sources:
        for name, row in source.rows().items():
            if name in places:
                raise InputError(
                    f"{source.path}: has an adapter {name}, as {places[name][0].path} has; choose one of each file by "
                    "NAME=FILE, or give one of them another name"
                )
            places[name] = source, row
    names = sorted(places)
    weights = {key: value for key, value in first.model.weights.items() if not is_adapter_key(key)}
    for key in _adapter_keys(first.model):
        weights[key] = torch.stack([source.model.weights[key][row] for source, row in (places[name] for name in names)])
    weights[NAMES] = names_entry(names)
    return Imported(ARCH, first.model.layout, weights, tuple(names), tuple(names), first.model.options)


def _check_base(first: Source, other: Source) -> None:
    ours, theirs = first.model.weights, other.model.weights
    for key in [*ours, *(key for key in theirs if key not in ours)]:
        if key == NAMES:
            continue
        if key not in theirs or key not in ours:
            raise InputError(f"{other.path}: is of another form than {first.path}: only one of them has {key}")
        if is_adapter_key(key):
            if ours[key].shape[1:] != theirs[key].shape[1:]:
                raise InputError(
                    f"{other.path}: its adapters are of another size than those of {first.path}: {key} is "
                    f"{tuple(theirs[key].shape[1:])}, not {tuple(ours[key].shape[1:])}"
                )
        elif not torch.equal(ours[key], theirs[key]):
            raise InputError(f"{other.path}: its base is not that of {first.path}: {key} differs")
    for name, value in first.model.layout.items():
        if other.model.layout.get(name) != value:
            raise InputError(
                f"{other.path}: its base is not that of {first.path}: its option {name} is "
                f"{other.model.layout.get(name)}, not {value}"
            )


def _adapter_keys(model: Imported) -> list[str]:
    return [key for key in model.weights if is_adapter_key(key)]


def _form(adapters: Mapping[str, Tensor], options: Mapping[str, Any]) -> dict[str, Any]:
    """The options that say what adapters these are."""
    options = {**FORM_OPTIONS, **options}
    if options["adapter_form"] != LORA:
        return {"bottleneck_dim": _width(adapters)}
    alpha, modules = options["lora_alpha"], str(options["lora_modules"])
    if not isinstance(alpha, int | float):
        raise InputError(f"its option lora_alpha is {shown(alpha)}, expected a number; it is damaged")
    TranslationAdapterConfig(lora_modules=modules).lora_names()
    return {"adapter_form": LORA, "lora_rank": _width(adapters), "lora_alpha": alpha, "lora_modules": modules}


def _width(adapters: Mapping[str, Tensor]) -> int:
    widths = {value.shape[1] for name, value in adapters.items() if name.endswith("bank.down_weight")}
    if len(widths) != 1:
        raise InputError("its adapters are not all of one width; it is damaged")
    return widths.pop()
