"""The layout of a Marian Transformer from its options; models of other kinds are refused by name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fairseq_ext.base.errors import InputError, check_choice, shown
from fairseq_ext.convert.hugging_face import check_fixed, read_size
from fairseq_ext.modules.transformer_options import ATTENTION, SSRU

# Options for which only one value is supported.
_FIXED: Mapping[str, Any] = {
    "type": "transformer",
    "right-left": False,
    "lemma-dim-emb": 0,
    "lemma-dependency": "",
    "ulr": False,
    "transformer-attention-mask": "default",
    "transformer-ffn-depth": 2,
    "transformer-no-affine": False,
    "transformer-no-bias": False,
    "transformer-pool": False,
    "transformer-rnn-projection": False,
    "transformer-train-position-embeddings": False,
}
# Types of files of a training: source and target, also by name, and what only training reads.
_INPUTS: Sequence[list[str]] = ([], ["sequence", "sequence"])
_ONLY_TRAINING = ("alignment", "weight")
_LAYER, _CELL = "transformer-decoder-autoreg", "dec-cell"
_DECODER_DEPTH = {"transformer-decoder-ffn-depth": 2}
_ACTIVATIONS = ("relu", "swish", "gelu")
_EPSILON = 1e-6
_POSITIONS = 1024  # in a table; Marian computes them for any length
# Operations before and after each block and after the stack, without "d", dropout.
_POST_NORM, _PRE_NORM = ("", "an", ""), ("n", "a", "n")


@dataclass(frozen=True)
class MarianLayout:
    """What a model's options say.

    Attributes:
        options: options of fairseq's Transformer that build the model.
        numbers: for the encoder and the decoder, the number of each layer in the names of weights, from 1; tied layers
            have the same number.
        is_output_tied: whether the output layer is the decoder's table of embeddings.
        has_projection: whether a linear layer follows attention.
    """

    options: Mapping[str, Any]
    numbers: Mapping[str, list[int]]
    is_output_tied: bool
    has_projection: bool

    @property
    def is_pre_norm(self) -> bool:
        return bool(self.options["encoder_normalize_before"])

    @property
    def has_ssru(self) -> bool:
        return bool(self.options["autoregressive_layer"] == SSRU)


def read_layout(options: Mapping[str, Any], path: Path) -> MarianLayout:
    """Read the options of a model; ``path`` is named in errors."""
    check_fixed(options, _FIXED, path)
    inputs = options.get("input-types") or []
    if not isinstance(inputs, list) or [each for each in inputs if each not in _ONLY_TRAINING] not in _INPUTS:
        raise InputError(f"{path}: input-types is {shown(inputs)}; only models with one source text are supported")
    activation = options.get("transformer-ffn-activation", "swish")
    check_choice(activation, _ACTIVATIONS, f"{path}: transformer-ffn-activation")
    encoder_depth, decoder_depth = (read_size(options, f"{side}-depth", path) for side in ("enc", "dec"))
    numbers = {"encoder": list(range(1, encoder_depth + 1)), "decoder": _decoder_numbers(options, decoder_depth, path)}
    built = {
        **_sizes(options, encoder_depth, decoder_depth, path),
        **_norms(options, path),
        **_positions(options),
        "activation_fn": activation,
        "autoregressive_layer": _autoregressive_layer(options, path),
        "layer_norm_epsilon": _EPSILON,
    }
    is_output_tied = bool(options.get("tied-embeddings") or options.get("tied-embeddings-all"))
    return MarianLayout(built, numbers, is_output_tied, not options.get("transformer-no-projection"))


def _sizes(options: Mapping[str, Any], encoder_depth: int, decoder_depth: int, path: Path) -> dict[str, int]:
    width, heads = read_size(options, "dim-emb", path), read_size(options, "transformer-heads", path)
    ffn = read_size(options, "transformer-dim-ffn", path)
    own = options.get("transformer-decoder-dim-ffn") or ffn
    sizes = {
        "decoder_ffn_embed_dim": read_size({"transformer-decoder-dim-ffn": own}, "transformer-decoder-dim-ffn", path)
    }
    check_fixed(
        {"transformer-decoder-ffn-depth": options.get("transformer-decoder-ffn-depth") or 2}, _DECODER_DEPTH, path
    )
    for side, depth in (("encoder", encoder_depth), ("decoder", decoder_depth)):
        sizes |= {f"{side}_embed_dim": width, f"{side}_attention_heads": heads, f"{side}_layers": depth}
    if width % heads or width % 2:
        raise InputError(f"{path}: dim-emb is {width}, which must be even and a multiple of transformer-heads, {heads}")
    return {"encoder_ffn_embed_dim": ffn, **sizes}


def _norms(options: Mapping[str, Any], path: Path) -> dict[str, bool]:
    """Return whether norms are before or after blocks, and whether embeddings are normed."""
    names = [f"transformer-{name}" for name in ("preprocess", "postprocess", "postprocess-top", "postprocess-emb")]
    given = [str(options.get(name, default)) for name, default in zip(names, ("", "dan", "", "d"), strict=True)]
    *around, embedding = (value.replace("d", "") for value in given)
    if tuple(around) not in (_POST_NORM, _PRE_NORM) or embedding not in ("", "n"):
        told = ", ".join(f"{name} {value!r}" for name, value in zip(names, given, strict=True))
        raise InputError(
            f"{path}: {told}; only post-norm ('', 'dan', '', 'd') and pre-norm ('n', 'da', 'n', 'd') are supported"
        )
    is_pre_norm = tuple(around) == _PRE_NORM
    before = {f"{side}_normalize_before": is_pre_norm for side in ("encoder", "decoder")}
    return {**before, "layernorm_embedding": embedding == "n"}


def _positions(options: Mapping[str, Any]) -> dict[str, Any]:
    if options.get("transformer-disable-position-embeddings"):
        # Marian scales embeddings only together with adding positions.
        return {"no_token_positional_embeddings": True, "no_scale_embedding": True}
    learned = {f"{side}_learned_pos": True for side in ("encoder", "decoder")}
    return {**learned, "max_source_positions": _POSITIONS, "max_target_positions": _POSITIONS}


def _autoregressive_layer(options: Mapping[str, Any], path: Path) -> str:
    layer, cell = options.get(_LAYER, "self-attention"), options.get(_CELL)
    if layer == "self-attention":
        return ATTENTION
    if layer == "rnn" and cell == SSRU:
        return SSRU
    told = f"{_CELL} {shown(cell)}" if layer == "rnn" else f"{_LAYER} {shown(layer)}"
    raise InputError(f"{path}: {told}; only decoders with self-attention or with dec-cell ssru are supported")


def _decoder_numbers(options: Mapping[str, Any], depth: int, path: Path) -> list[int]:
    tied = options.get("transformer-tied-layers") or list(range(1, depth + 1))
    if not isinstance(tied, list) or len(tied) != depth or not all(type(n) is int and 1 <= n <= depth for n in tied):
        raise InputError(
            f"{path}: transformer-tied-layers is {shown(tied)}; expected {depth} numbers of decoder layers"
        )
    return tied
