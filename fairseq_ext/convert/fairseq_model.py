"""A converted model in fairseq: its checkpoint, and a check of its weights against the architecture.

:class:`Imported` is a Transformer of any task or fairseq version as a plain Transformer, on which adapters can be
trained.
"""

from __future__ import annotations

import re
import warnings
from argparse import Namespace
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from fairseq import options
from fairseq.data import Dictionary
from fairseq.dataclass.utils import convert_namespace_to_omegaconf
from fairseq.models import ARCH_MODEL_REGISTRY, MODEL_DATACLASS_REGISTRY
from omegaconf import OmegaConf
from torch import Tensor
from torch.overrides import TorchFunctionMode

from fairseq_ext import install
from fairseq_ext.base.errors import InputError
from fairseq_ext.base.fairseq_cli import as_arguments
from fairseq_ext.models.base_layout import POSITIONS, layout_of
from fairseq_ext.models.checkpoints import check_fit
from fairseq_ext.patches.checkpoints import save_checkpoint

MODEL_FILE = "model.pt"
_SPECIAL = 4  # special symbols at the start of every fairseq dictionary
# Unused entries of earlier versions: tables that are recomputed, copies for a faster path.
_DEAD = re.compile(
    r"(encoder|decoder)\.embed_positions\.(weights|_float_tensor)"
    r"|encoder\.layers\.\d+\.(in_proj|out_proj|fc1|fc2)_(weight|bias)"
)
_LAYER = re.compile(r"(encoder|decoder)\.layers\.(\d+)\.")
# fairseq's command line has no options for them; they equal the decoder's width.
_AS_WIDE = ("decoder_input_dim", "decoder_output_dim")
# fairseq's first position; lower numbers are the padding's and an unused one.
_FIRST_POSITION = 2


@dataclass(frozen=True)
class Imported:
    """A model with this project's names of its parts."""

    arch: str
    layout: Mapping[str, Any]  # see fairseq_ext.models.base_layout.layout_of
    weights: dict[str, Tensor]
    names: tuple[str, ...] = ()  # names of its adapters, sorted
    options: Mapping[str, Any] = field(default_factory=dict)  # additional options of the architecture or the task

    def arguments(self, languages: Sequence[str | None] = (), task: str = "") -> list[str]:
        """Return task, criterion, architecture and layout as options of ``fairseq-train``."""
        task = task or ("multi_domain_translation" if self.names else "translation")
        line = ["--task", task, "--criterion", "label_smoothed_cross_entropy", "--arch", self.arch]
        for flag, language in zip(("--source-lang", "--target-lang"), languages, strict=False):
            line += [flag, language] if language else []
        values = {**self.layout, **self.options}
        return line + as_arguments({name: value for name, value in values.items() if name not in _AS_WIDE})

    def check_shapes(self) -> None:
        """Check that no weight is missing, unknown, or of a shape other than the architecture's."""
        symbols = [len(self.weights[f"{side}.embed_tokens.weight"]) for side in ("encoder", "decoder")]
        check_shapes(self.weights, self.arguments(), symbols, self.names)

    def write(self, folder: Path, languages: Sequence[str | None]) -> None:
        """Write ``model.pt``."""
        write_checkpoint(folder, self.weights, self.arguments(languages), "LabelSmoothedCrossEntropyCriterion")


def read_transformer(weights: Mapping[str, Tensor], options: Mapping[str, Any]) -> Imported:
    """Return the base model of a checkpoint."""
    kept = {name: value for name, value in weights.items() if not _DEAD.fullmatch(name)}
    layout = {**layout_of(options), **_positions(options, kept)}
    for name in ("no_cross_attention", "cross_self_attention"):
        if layout[name]:
            raise InputError(f"its option {name} is not supported; only plain transformers can be imported")
    for side in ("encoder", "decoder"):
        if f"{side}.embed_tokens.weight" not in weights:
            raise InputError(f"is not a Transformer for translation: its weights have no {side}.embed_tokens.weight")
        # A wrong number of layers could result in a huge model.
        layers = {int(at[2]) for name in kept if (at := _LAYER.match(name)) and at[1] == side}
        found = layout[f"{side}_layers"]
        if found != len(layers):
            raise InputError(f"its option {side}_layers is {found}, but its weights have {len(layers)} layers")
    return Imported("transformer", layout, kept)


def _positions(options: Mapping[str, Any], weights: Mapping[str, Tensor]) -> dict[str, int]:
    """Return the number of positions in tables of learned positions."""
    found = {}
    for learned, name in POSITIONS.items():
        table = weights.get(f"{learned.partition('_')[0]}.embed_positions.weight")
        if options.get(learned) and table is not None and len(table) > _FIRST_POSITION:
            found[name] = len(table) - _FIRST_POSITION
    return found


def build_model(arguments: Sequence[str], symbols: Sequence[int], domains: Sequence[str] = ()) -> Any:
    """Build a model.

    Args:
        arguments: task, architecture and options as for ``fairseq-train``, without data.
        symbols: sizes of the dictionaries: one, or source and target; equal sizes mean a shared dictionary.
        domains: names of the adapters.
    """
    return _built(_parsed(arguments).model, symbols, domains=list(domains))


def build_without_weights(config: Any, symbols: Sequence[int]) -> Any:
    """Build a model from a checkpoint's model options, with tensors on the ``meta`` device.

    As when fairseq loads a checkpoint, options that it lacks have their defaults.
    """
    defaults = vars(MODEL_DATACLASS_REGISTRY[config._name]()) if config._name in MODEL_DATACLASS_REGISTRY else {}
    config = Namespace(**{**defaults, **vars(config)})
    with torch.device("meta"), _StayingOnDevice():
        return _built(config, symbols)


def _built(config: Any, symbols: Sequence[int], **of_task: Any) -> Any:
    install()
    source, target = (_dictionary(size) for size in (symbols[0], symbols[-1]))
    if len(set(symbols)) == 1:
        target = source
    task = Namespace(source_dictionary=source, target_dictionary=target, dictionary=source, **of_task)
    return ARCH_MODEL_REGISTRY[config._name].build_model(config, task)


def check_shapes(
    state: Mapping[str, Tensor], arguments: Sequence[str], symbols: Sequence[int], domains: Sequence[str] = ()
) -> None:
    """Check that a model with these options has the same entries with the same shapes; see :func:`build_model`."""
    try:
        # On "meta", weights need no memory.
        with torch.device("meta"), _StayingOnDevice():
            model = build_model(arguments, symbols, domains)
    except (ArithmeticError, AssertionError, RuntimeError, ValueError) as error:
        raise InputError(f"no model can be built from its options ({str(error) or type(error).__name__})") from None
    upgraded = dict(state)
    model.upgrade_state_dict(upgraded)
    check_fit(model, upgraded, "", {}, True)


def write_checkpoint(
    folder: Path,
    state: Mapping[str, Tensor],
    arguments: Sequence[str],
    criterion: str,
    task_state: Mapping[str, Any] | None = None,
) -> None:
    """Write ``model.pt`` with all entries that fairseq expects in a checkpoint."""
    history = {
        "criterion_name": criterion,
        "optimizer_name": "FairseqAdam",
        "lr_scheduler_state": {},
        "num_updates": 0,
    }
    config = OmegaConf.to_container(_parsed(arguments), resolve=True, enum_to_str=True)
    checkpoint = {
        "args": None,
        "cfg": config,
        "model": dict(state),
        "criterion": {},
        "optimizer_history": [history],
        "task_state": dict(task_state or {}),
        "extra_state": {"train_iterator": {"epoch": 1, "iterations_in_epoch": 0}},
        "last_optimizer_state": None,
    }
    save_checkpoint(checkpoint, folder / MODEL_FILE)


class _StayingOnDevice(TorchFunctionMode):
    """Ignore ``cpu()``, which RoBERTa's initialisation calls: tensors on ``meta`` have no data."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return args[0] if func is Tensor.cpu else func(*args, **(kwargs or {}))


def _parsed(arguments: Sequence[str]) -> Any:
    """Return the configuration that ``fairseq-train`` makes from options."""
    install()
    # A placeholder: users give their own data directory.
    line = [".", "--optimizer", "adam", *arguments]
    with warnings.catch_warnings():
        # Users cannot act on warnings of fairseq's dependencies about each other.
        warnings.simplefilter("ignore")
        return convert_namespace_to_omegaconf(options.parse_args_and_arch(options.get_training_parser(), line))


def _dictionary(size: int) -> Dictionary:
    """Return a dictionary of a given size with placeholder symbols."""
    dictionary = Dictionary()
    for number in range(size - _SPECIAL):
        dictionary.add_symbol(f"symbol{number}")
    return dictionary
