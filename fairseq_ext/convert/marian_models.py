"""Import Marian's own models (OPUS-MT, Firefox) as bases for adapters.

They compute the same function as fairseq's Transformer with an SSRU or self-attention in the decoder. Four things
differ: the decoder begins with a zero vector, the output layer has a bias, the epsilon of norms is smaller, and
positions are counted from 0 (in fairseq from 2), so that they are stored as a table.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from fairseq_ext.base.errors import InputError, naming, shown
from fairseq_ext.base.fairseq_cli import as_arguments, quieten_fairseq
from fairseq_ext.convert.embedding_tables import EmbeddingTables
from fairseq_ext.convert.fairseq_model import read_transformer
from fairseq_ext.convert.marian_files import MarianModel, read_model, read_shortlist
from fairseq_ext.convert.marian_folder import find_files, read_file
from fairseq_ext.convert.marian_layout import MarianLayout, read_layout
from fairseq_ext.convert.translation_models import write_base_model
from fairseq_ext.text.lexicons import BASE, SHORTLIST_FILE, write_lexicons

# Multipliers of activations, for Marian's integer products.
_UNUSED = "QuantMultA"
_DROPOUTS = {
    "dropout": "transformer-dropout",
    "attention_dropout": "transformer-dropout-attention",
    "activation_dropout": "transformer-dropout-ffn",
}
# Options of Marian's decoder and their defaults.
_DECODER = {"beam-size": 12, "normalize": 0, "max-length-factor": 3, "word-penalty": 0, "allow-unk": False}
_NO_UNKNOWN = 1000  # penalty of unknown symbols that no translation has
_OUTPUT = "decoder_ff_logit_out_"


def import_marian_model(source: Path, folder: Path, languages: Sequence[str | None] = (None, None)) -> None:
    """Convert a model of Marian.

    Args:
        source: ``.npz`` or ``.bin`` with its vocabulary in the same folder, or the folder.
        folder: existing folder to write to. docs/import-export.md lists the files.
        languages: source and target; None to read it from Firefox's ``metadata.json`` or the file's name.
    """
    quieten_fairseq()
    files = find_files(source)
    model = read_model(read_file(files.model), files.model)
    layout = read_layout(model.options, files.model)
    vocabulary = files.read_vocabulary(languages)
    generation = _generation(files.decoding, files.model)
    with naming(files.model):
        weights = _Weights(model.arrays, layout)
        tables, tied = weights.tables().for_fairseq(vocabulary)
        options = {**layout.options, **tied, **_dropouts(model, layout, files.training)}
        imported = read_transformer({**weights.layers(), **tables}, options)
        if weights.unused:
            raise InputError(f"has the unknown entry {min(weights.unused)}; models with such parts are not supported")
        imported.check_shapes()
    write_base_model(folder, imported, vocabulary, generation)
    if files.shortlist is not None:
        lexicon = read_shortlist(read_file(files.shortlist), files.shortlist, vocabulary.source, vocabulary.target)
        write_lexicons(folder / SHORTLIST_FILE, {BASE: lexicon})


class _Weights:
    """Converts Marian's arrays, each of which must be used, to fairseq's names and shapes."""

    def __init__(self, arrays: Mapping[str, np.ndarray], layout: MarianLayout) -> None:
        self.arrays, self.layout = arrays, layout
        self.unused = {name for name in arrays if _UNUSED not in name}
        self.found: dict[str, Tensor] = {}

    def layers(self) -> dict[str, Tensor]:
        """Return all weights but the embeddings."""
        for side, numbers in self.layout.numbers.items():
            for ours, theirs in enumerate(numbers):
                self._layer(side, f"{side}.layers.{ours}", f"{side}_l{theirs}")
            if self.layout.is_pre_norm:
                self._norm(f"{side}.layer_norm", f"{side}_top_ln_", "")
            if self.layout.options["layernorm_embedding"]:
                self._norm(f"{side}.layernorm_embedding", f"{side}_emb_ln_", "_pre")
            if self.layout.options.get(f"{side}_learned_pos"):
                self.found[f"{side}.embed_positions.weight"] = self._positions()
            self.found[f"{side}.version"] = torch.tensor([3.0])
        return self.found

    def tables(self) -> EmbeddingTables:
        """Return the embeddings."""
        joint = "Wemb" if "Wemb" in self.arrays else None
        encoder = self.matrix(joint or "encoder_Wemb")
        decoder = encoder if joint else self.matrix("decoder_Wemb")
        output = decoder
        if not self.layout.is_output_tied:
            # Earlier versions of Marian store it transposed.
            output = self.matrix(f"{_OUTPUT}Wt") if f"{_OUTPUT}Wt" in self.arrays else self.matrix(f"{_OUTPUT}W").t()
        bias = self.vector(f"{_OUTPUT}b") if f"{_OUTPUT}b" in self.arrays else None
        return EmbeddingTables(encoder, decoder, output, torch.zeros(decoder.shape[1]), bias)

    def take(self, name: str) -> Tensor:
        if name not in self.arrays:
            raise InputError(f"has no {name}, which its options require; the file is incomplete")
        self.unused.discard(name)
        return torch.tensor(self.arrays[name])

    def vector(self, name: str) -> Tensor:
        return self.take(name).flatten()

    def matrix(self, name: str) -> Tensor:
        matrix = self.take(name)
        if matrix.dim() != 2:
            raise InputError(f"{name} has the shape {tuple(matrix.shape)}, expected a matrix; the file is damaged")
        return matrix

    def _layer(self, side: str, ours: str, theirs: str) -> None:
        suffix = "_pre" if self.layout.is_pre_norm else ""
        if side == "decoder" and self.layout.has_ssru:
            self._linear(f"{ours}.self_attn.forget", f"{theirs}_rnn_Wf", f"{theirs}_rnn_bf")
            self._linear(f"{ours}.self_attn.candidate", f"{theirs}_rnn_W")
            norm = f"{theirs}_rnn_ln_" if self.layout.is_pre_norm else f"{theirs}_rnn_ffn_ln_"
        else:
            self._attention(f"{ours}.self_attn", f"{theirs}_self_")
            norm = f"{theirs}_self_Wo_ln_"
        self._norm(f"{ours}.self_attn_layer_norm", norm, suffix)
        if side == "decoder":
            self._attention(f"{ours}.encoder_attn", f"{theirs}_context_")
            self._norm(f"{ours}.encoder_attn_layer_norm", f"{theirs}_context_Wo_ln_", suffix)
        for number in (1, 2):
            self._linear(f"{ours}.fc{number}", f"{theirs}_ffn_W{number}", f"{theirs}_ffn_b{number}")
        self._norm(f"{ours}.final_layer_norm", f"{theirs}_ffn_ffn_ln_", suffix)

    def _linear(self, ours: str, weight: str, bias: str | None = None) -> None:
        self.found[f"{ours}.weight"] = self.matrix(weight).t().contiguous()
        if bias:
            self.found[f"{ours}.bias"] = self.vector(bias)

    def _norm(self, ours: str, theirs: str, suffix: str) -> None:
        for name, kind in (("weight", "scale"), ("bias", "bias")):
            self.found[f"{ours}.{name}"] = self.vector(f"{theirs}{kind}{suffix}")

    def _attention(self, ours: str, theirs: str) -> None:
        for name in "qkv":
            self._linear(f"{ours}.{name}_proj", f"{theirs}W{name}", f"{theirs}b{name}")
        if self.layout.has_projection:
            self._linear(f"{ours}.out_proj", f"{theirs}Wo", f"{theirs}bo")
        else:
            width = self.layout.options["encoder_embed_dim"]
            self.found |= {f"{ours}.out_proj.weight": torch.eye(width), f"{ours}.out_proj.bias": torch.zeros(width)}

    def _positions(self) -> Tensor:
        """Return Marian's positions, sines before cosines, preceded by fairseq's two unused rows: T×H."""
        length, width = self.layout.options["max_source_positions"], self.layout.options["encoder_embed_dim"]
        rates = torch.exp(torch.arange(width // 2) * -(math.log(10_000) / max(1, width // 2 - 1)))
        angles = torch.arange(length)[:, None] * rates
        return torch.cat([torch.zeros(2, width), torch.cat([angles.sin(), angles.cos()], 1)])


def _dropouts(model: MarianModel, layout: MarianLayout, training: Mapping[str, Any]) -> dict[str, float]:
    """Return the dropout of the model's training, as far as it is known; students are trained without."""
    told: dict[str, Any] = {ours: training.get(theirs) for ours, theirs in _DROPOUTS.items()}
    if layout.has_ssru or model.is_quantised:
        told = {ours: value or 0.0 for ours, value in told.items()}
    return {ours: float(value) for ours, value in told.items() if type(value) in (int, float) and 0 <= value < 1}


def _generation(decoding: Mapping[str, Any], path: Path) -> list[str]:
    """Return the options of ``fairseq-generate`` for options of Marian's decoder, which are named in errors."""
    values = {name: decoding.get(name, default) for name, default in _DECODER.items()}
    for name, value in values.items():
        if type(value) not in (int, float, bool):
            raise InputError(f"{path}: the options of decoding have {name} {shown(value)}; expected a number")
    if type(values["beam-size"]) is not int or values["beam-size"] < 1:
        raise InputError(f"{path}: the options of decoding have beam-size {values['beam-size']}; expected 1 or more")
    if values["word-penalty"]:
        print(f"word-penalty {values['word-penalty']} is left out: fairseq's search has none", file=sys.stderr)
    length = {"lenpen": values["normalize"] + 0, "max-len-a": values["max-length-factor"], "max-len-b": 0}
    return as_arguments({"beam": values["beam-size"], **length, "unkpen": 0 if values["allow-unk"] else _NO_UNKNOWN})
