"""A Transformer of fairseq's, of whatever task and age, as the plain one that adapters can be trained on."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from torch import Tensor

from fairseq_ext.convert.fairseq_model import as_options, check_shapes, write_checkpoint
from fairseq_ext.inputs.errors import InputError
from fairseq_ext.models.base_layout import POSITIONS, layout_of

# Kept by earlier versions beside what is computed with: tables that are computed anew, copies for a faster path.
_DEAD = re.compile(
    r"(encoder|decoder)\.embed_positions\.(weights|_float_tensor)"
    r"|encoder\.layers\.\d+\.(in_proj|out_proj|fc1|fc2)_(weight|bias)"
)
_LAYER = re.compile(r"(encoder|decoder)\.layers\.(\d+)\.")
# fairseq's command line takes no numbers for them: they are the decoder's width.
_AS_WIDE = ("decoder_input_dim", "decoder_output_dim")
# fairseq numbers positions from here on: below are the padding's and one that nothing has.
_FIRST_POSITION = 2


@dataclass(frozen=True)
class Imported:
    """A model as this project names its parts."""

    arch: str
    layout: Mapping[str, Any]  # see fairseq_ext.models.base_layout.layout_of
    weights: dict[str, Tensor]
    names: tuple[str, ...] = ()  # of its adapters, sorted
    options: Mapping[str, Any] = field(default_factory=dict)  # further ones, of the architecture or the task

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
    kept = {name: value for name, value in weights.items() if not _DEAD.fullmatch(name)}
    layout = {**layout_of(options), **_positions(options, kept)}
    for name in ("no_cross_attention", "cross_self_attention"):
        if layout[name]:
            raise InputError(f"its option {name} makes no plain transformer of it; it cannot be imported")
    for side in ("encoder", "decoder"):
        if f"{side}.embed_tokens.weight" not in weights:
            raise InputError(f"no Transformer for translation: its weights have no {side}.embed_tokens.weight")
        # A wrong number could make a model that is endless.
        layers = {int(at[2]) for name in kept if (at := _LAYER.match(name)) and at[1] == side}
        found = layout[f"{side}_layers"]
        if found != len(layers):
            raise InputError(f"its option {side}_layers is {found}, but its weights have {len(layers)}")
    return Imported("transformer", layout, kept)


def _positions(options: Mapping[str, Any], weights: Mapping[str, Tensor]) -> dict[str, int]:
    """The positions that tables of learned ones have."""
    found = {}
    for learned, name in POSITIONS.items():
        table = weights.get(f"{learned.partition('_')[0]}.embed_positions.weight")
        if options.get(learned) and table is not None and len(table) > _FIRST_POSITION:
            found[name] = len(table) - _FIRST_POSITION
    return found
