"""Convert masked language models of Hugging Face to fairseq, with one table of names and options per family.

Both libraries compute the same function. They differ in the names; the order of the symbols; and fairseq's table of
positions, which begins with two unused rows.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from fairseq_ext.base.errors import InputError
from fairseq_ext.convert.fairseq_model import as_options, check_shapes, write_checkpoint
from fairseq_ext.convert.hugging_face import (
    CONFIG_FILE,
    check_fixed,
    load_weights,
    naming,
    read_rate,
    read_size,
    weight_file,
)
from fairseq_ext.patches.checkpoints import check_weights

# Unused rows of fairseq's table of positions, which are numbered after <pad>.
_UNUSED_ROWS = 2
_KINDS = ("weight", "bias")


@dataclass(frozen=True)
class ModelFamily:
    """A model family in both libraries. In each pair of names, Hugging Face's is first."""

    name: str  # name for messages
    task: Mapping[str, Any]  # task, architecture and fixed options of fairseq-train
    criterion: str  # class name of fairseq's criterion
    config: Mapping[str, Any]  # fixed values of config.json
    sizes: Mapping[str, Sequence[str]]  # keys of config.json, each with options of fairseq; the first one set is used
    rates: Mapping[str, str]  # dropout rates, likewise
    layers: str  # key of config.json for the number of layers
    length: str
    prefix: str  # optional prefix of tensor names
    copies: Mapping[str, str]  # names of tensors that are copies of others; files may contain them
    by_symbol: Mapping[str, Sequence[str]]  # tensors with one row per symbol
    positions: tuple[str, str]  # names of the table of positions
    modules: Mapping[str, str]  # modules outside the layers, with a weight and a bias
    layer: tuple[str, str]  # prefix of the layer's number
    layer_modules: Mapping[str, str]
    version: str  # fairseq's entry for the version of its code
    aliases: Mapping[str, str] = field(default_factory=dict)  # alternative names of modules
    unused: Sequence[str] = ()  # name patterns of tensors that fairseq does not use
    unused_positions: int = 0  # unused rows of Hugging Face's table of positions

    def all_modules(self, layers: int) -> Iterator[tuple[str, str]]:
        """Yield Hugging Face's and fairseq's names of every module with a weight and a bias."""
        yield from self.modules.items()
        for number in range(layers):
            for theirs, ours in self.layer_modules.items():
                yield f"{self.layer[0]}{number}.{theirs}", f"{self.layer[1]}{number}.{ours}"


Config = dict[str, Any]


def read_config(content: Mapping[str, Any], family: ModelFamily, num_symbols: int, path: Path) -> Config:
    """Validate ``config.json``, and return the values that differ between models of the family."""
    check_fixed(content, family.config, path)
    config: Config = {key: read_size(content, key, path) for key in ("vocab_size", *family.sizes)}
    config |= {key: read_rate(content, key, path) for key in family.rates}
    if config["vocab_size"] != num_symbols:
        raise InputError(
            f"{path}: vocab_size is {config['vocab_size']}, but the tokeniser has {num_symbols} symbols; give "
            "the tokeniser of this model"
        )
    return config


def arguments(config: Config, family: ModelFamily) -> list[str]:
    """Return the options of ``fairseq-train`` that build the model."""
    values = {**config, family.length: config[family.length] - family.unused_positions}
    found = {name: values[key] for key, names in family.sizes.items() for name in names}
    found |= {name: values[key] for key, name in family.rates.items()}
    return as_options({**family.task, **found})


def read_weights(folder: Path, family: ModelFamily, config: Config) -> dict[str, Tensor]:
    """Read the weights in single precision, without the prefix, copies and unused tensors."""
    named = {_own_name(name, family): value for name, value in load_weights(folder).items()}
    is_unused = re.compile("|".join(family.unused)).fullmatch
    weights = {name: value for name, value in named.items() if not is_unused(name)}
    with naming(weight_file(folder)):
        check_weights(weights)
        found = _count_layers(weights, family.layer[0])
        # A wrong number could make the list of expected tensors huge.
        if found != config[family.layers]:
            raise InputError(f"has {found} layers, but {CONFIG_FILE} says {config[family.layers]}")
        for copy, original in family.copies.items():
            value = weights.pop(copy, None)
            if value is not None:
                weights.setdefault(original, value)
    return {name: value.float() for name, value in weights.items()}


def to_fairseq(
    weights: Mapping[str, Tensor], order: Sequence[int], family: ModelFamily, config: Config, where: Path
) -> dict[str, Tensor]:
    """Convert weights to fairseq's names and layout.

    Args:
        weights: tensors by Hugging Face's names.
        order: V numbers of symbols, in fairseq's order.
        family: family of the model.
        config: values that differ between models of the family.
        where: file of the weights, for messages.
    """
    left = dict(weights)
    state: dict[str, Tensor] = {}
    with naming(where):
        for theirs, names in family.by_symbol.items():
            table = _take(left, theirs)
            if not table.dim() or len(table) != len(order):
                raise InputError(f"{theirs!r} has the shape {tuple(table.shape)}, expected {len(order)} rows")
            state |= dict.fromkeys(names, table[list(order)])
        theirs, ours = family.positions
        table = _take(left, theirs)
        state[ours] = torch.cat([table.new_zeros(_UNUSED_ROWS - family.unused_positions, *table.shape[1:]), table])
        state[family.version] = torch.tensor([3.0])
        for theirs, ours in family.all_modules(config[family.layers]):
            state |= {f"{ours}.{kind}": _take(left, f"{theirs}.{kind}") for kind in _KINDS}
        if left:
            raise InputError(f"the tensor {next(iter(left))!r} is unknown; only plain {family.name} can be converted")
    return state


def write_model(folder: Path, state: Mapping[str, Tensor], family: ModelFamily, config: Config, where: Path) -> None:
    """Check the shapes of the weights, and write a fairseq checkpoint."""
    line = arguments(config, family)
    with naming(where):
        check_shapes(state, line, [config["vocab_size"]])
    write_checkpoint(folder, state, line, family.criterion)


def _count_layers(weights: Mapping[str, Tensor], prefix: str) -> int:
    return len({name.removeprefix(prefix).split(".")[0] for name in weights if name.startswith(prefix)})


def _own_name(name: str, family: ModelFamily) -> str:
    """Return the family's name of a tensor."""
    module, dot, kind = name.removeprefix(family.prefix).rpartition(".")
    return f"{family.aliases.get(module, module)}{dot}{kind}"


def _take(weights: dict[str, Tensor], name: str) -> Tensor:
    if name not in weights:
        raise InputError(f"the tensor {name!r} is missing; the file is incomplete or belongs to another model")
    return weights.pop(name)
