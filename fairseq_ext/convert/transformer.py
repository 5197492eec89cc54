"""A Transformer of fairseq's, of whatever task and age, as the plain one that adapters can be trained on."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from fairseq_ext.convert.fairseq_model import as_options, check_shapes, write_checkpoint
from fairseq_ext.inputs.errors import InputError, shown
from fairseq_ext.models.base_layout import POSITIONS, layout_of

# Kept by earlier versions beside what is computed with: tables that are computed anew, copies for a faster path.
_DEAD = re.compile(
    r"(encoder|decoder)\.embed_positions\.(weights|_float_tensor)"
    r"|encoder\.layers\.\d+\.(in_proj|out_proj|fc1|fc2)_(weight|bias)"
)
_LAYER = re.compile(r"(encoder|decoder)\.layers\.(\d+)\.")
# Options of fairseq's that make another model of a Transformer, with the value that does not.
_ORDINARY: Mapping[str, tuple[Any, ...]] = {
    "adaptive_input": (False, None),
    "adaptive_softmax_cutoff": (None, ""),
    "base_layers": (0, None),
    "char_inputs": (False, None),
    "cross_self_attention": (False, None),
    "decoder_layers_to_keep": (None, ""),
    "encoder_layers_to_keep": (None, ""),
    "merge_src_tgt_embed": (False, None),
    "no_cross_attention": (False, None),
}
# fairseq's command line takes no numbers for them: they are the decoder's width.
_AS_WIDE = ("decoder_input_dim", "decoder_output_dim")
# fairseq numbers positions from here on: below are the padding's and one that nothing has.
_FIRST_POSITION = 2
_TIED = {
    "share_all_embeddings": ("encoder.embed_tokens.weight", "decoder.embed_tokens.weight"),
    "share_decoder_input_output_embed": ("decoder.embed_tokens.weight", "decoder.output_projection.weight"),
}


@dataclass(frozen=True)
class Imported:
    """A model as this project names its parts.

    Attributes:
        arch: the architecture to build.
        layout: its form, see :func:`~fairseq_ext.models.base_layout.layout_of`.
        weights: by name.
        names: of its adapters, sorted; none of a base model.
        options: further options of the architecture or the task, with their values.
    """

    arch: str
    layout: Mapping[str, Any]
    weights: dict[str, Tensor]
    names: tuple[str, ...] = ()
    options: Mapping[str, Any] = field(default_factory=dict)

    def arguments(self, languages: Sequence[str | None] = (), task: str = "") -> list[str]:
        """Return task, criterion, architecture and form as options of ``fairseq-train``."""
        task = task or ("multi_domain_translation" if self.names else "translation")
        line = ["--task", task, "--criterion", "label_smoothed_cross_entropy", "--arch", self.arch]
        for flag, language in zip(("--source-lang", "--target-lang"), languages, strict=False):
            line += [flag, language] if language else []
        values = {**self.layout, **self.options}
        return line + as_options({name: value for name, value in values.items() if name not in _AS_WIDE})

    def check_shapes(self) -> None:
        """Check that no weight is missing, unknown, or of another shape than the architecture's."""
        symbols = [len(self.weights[f"{side}.embed_tokens.weight"]) for side in ("encoder", "decoder")]
        check_shapes(self.weights, self.arguments(), symbols, self.names)

    def write(self, folder: Path, languages: Sequence[str | None]) -> None:
        """Write ``model.pt``."""
        write_checkpoint(folder, self.weights, self.arguments(languages), "LabelSmoothedCrossEntropyCriterion")


def read_transformer(weights: Mapping[str, Tensor], options: Mapping[str, Any]) -> Imported:
    """The base model of a checkpoint."""
    for side in ("encoder", "decoder"):
        if f"{side}.embed_tokens.weight" not in weights:
            raise InputError(f"no Transformer for translation: its weights have no {side}.embed_tokens.weight")
    for name, ordinary in _ORDINARY.items():
        if options.get(name) not in ordinary:
            raise InputError(
                f"its option {name} is {shown(options[name])}, of which no plain transformer can be made; only models "
                "without it can be imported"
            )
    kept = {name: value for name, value in weights.items() if not _DEAD.fullmatch(name)}
    layout = {**layout_of(options), **_positions(options, kept)}
    _check_sizes(layout, kept)
    _check_tied(layout, kept)
    for name in _AS_WIDE:
        if layout[name] != layout["decoder_embed_dim"]:
            raise InputError(f"its option {name} is {layout[name]}, its decoder {layout['decoder_embed_dim']} wide")
    return Imported("transformer", layout, kept)


def _positions(options: Mapping[str, Any], weights: Mapping[str, Tensor]) -> dict[str, int]:
    """The positions that tables of learned ones have."""
    found = {}
    for learned, name in POSITIONS.items():
        table = weights.get(f"{learned.partition('_')[0]}.embed_positions.weight")
        if options.get(learned) and table is not None and len(table) > _FIRST_POSITION:
            found[name] = len(table) - _FIRST_POSITION
    return found


def _check_sizes(layout: Mapping[str, Any], weights: Mapping[str, Tensor]) -> None:
    """Hold the sizes of the options to those of the weights, before a model is begun."""
    for side in ("encoder", "decoder"):
        numbers = {int(at[2]) for name in weights if (at := _LAYER.match(name)) and at[1] == side}
        first = weights.get(f"{side}.layers.0.fc1.weight")
        table = weights[f"{side}.embed_tokens.weight"]
        if table.dim() != 2 or first is None or first.dim() != 2:
            raise InputError(f"no Transformer for translation: its weights have no {side}.layers.0.fc1.weight")
        found = {
            f"{side}_layers": len(numbers),
            f"{side}_embed_dim": first.shape[1],
            f"{side}_ffn_embed_dim": first.shape[0],
        }
        for name, size in found.items():
            if layout[name] != size:
                raise InputError(f"its option {name} is {layout[name]}, but its weights have {size}; it is damaged")
        if table.shape[1] != first.shape[1]:
            raise InputError(
                f"{side}.embed_tokens.weight is {table.shape[1]} wide, its layers {first.shape[1]}; only models with "
                "embeddings as wide as layers can be imported"
            )
        if layout[f"{side}_embed_dim"] % layout[f"{side}_attention_heads"]:
            raise InputError(
                f"its option {side}_attention_heads is {layout[f'{side}_attention_heads']}, which does not divide its "
                f"width of {layout[f'{side}_embed_dim']}; it is damaged"
            )


def _check_tied(layout: Mapping[str, Any], weights: Mapping[str, Tensor]) -> None:
    for option, (one, other) in _TIED.items():
        # fairseq fills in an output projection that is the embeddings.
        if layout[option] and other in weights and not torch.equal(weights[one], weights[other]):
            raise InputError(f"its option {option} says that {one} and {other} are one, but they differ")
