"""Changes to fairseq's models: encoder hooks, ``--decoding-precision``, and support for models trained elsewhere.

Every Transformer has three more options. ``--autoregressive-layer ssru`` replaces the decoder's self-attention,
``--layer-norm-epsilon`` sets the epsilon of all norms of the base model, and with ``--zero-start`` the decoder begins
with a zero vector.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from copy import copy
from dataclasses import Field, fields, make_dataclass
from typing import Any

import torch
import torch.nn.functional as F
from fairseq import utils
from fairseq.dataclass import ChoiceEnum
from fairseq.models import BaseFairseqModel, FairseqEncoder
from fairseq.models.transformer import TransformerConfig, TransformerDecoderBase, TransformerEncoderBase
from fairseq.modules.transformer_layer import TransformerDecoderLayerBase
from torch import Tensor, nn

from fairseq_ext.base.option import option
from fairseq_ext.modules.ssru import SSRU
from fairseq_ext.modules.transformer_options import AUTOREGRESSIVE_LAYERS, TRANSFORMER_OPTIONS
from fairseq_ext.modules.transformer_options import SSRU as SSRU_LAYER
from fairseq_ext.patches import Patch

SWISH = "swish"
OUTPUT_BIAS = "output_bias"
_FULL = "float32"


@torch.jit.unused
def _call(encoder: FairseqEncoder, net_input: dict[str, Any]) -> Any:
    """Call the encoder instead of its ``forward``, so that its hooks run.

    With such a hook, a model that does not route by domain drops inputs that other models of an ensemble need.
    """
    return encoder(**{name: value for name, value in net_input.items() if name != "prev_output_tokens"})


def _lowering(prepare: Callable[..., Any]) -> Callable[..., Any]:
    """Apply the command's precision when a model is prepared for inference."""

    def prepare_and_lower(model: BaseFairseqModel, cfg: Any) -> None:
        prepare(model, cfg)
        task = getattr(cfg, "task", None)
        lower_precision(model, _FULL if task is None else str(getattr(task, "decoding_precision", _FULL)))

    return prepare_and_lower


def lower_precision(model: nn.Module, precision: str) -> None:
    """Convert a model's weights and products to ``bfloat16`` for inference, but not its residual stream."""
    if precision == _FULL:
        return
    for module in model.modules():
        if isinstance(module, nn.Linear):
            module.bfloat16()
    device = next(model.parameters()).device.type
    for side in ("encoder", "decoder"):
        if (part := getattr(model, side, None)) is not None:
            part.forward = _with_autocast(part.forward, device)


def _with_autocast(forward: Callable[..., Any], device: str) -> Callable[..., Any]:
    @functools.wraps(forward)
    def compute(*args: Any, **kwargs: Any) -> Any:
        with torch.autocast(device, torch.bfloat16):
            return forward(*args, **kwargs)

    return compute


def _with_swish(known: Callable[[str], Any]) -> Callable[[str], Any]:
    """Return the function for ``swish``; fairseq returns a class."""
    return lambda activation: F.silu if activation == SWISH else known(activation)


def _with_bias(upgrade: Callable[..., Any]) -> Callable[..., Any]:
    """Add the output-layer bias of a checkpoint, if it has one, to the decoder as a buffer."""

    def upgrade_state_dict_named(self: Any, state_dict: dict[str, Tensor], name: str) -> dict[str, Tensor]:
        bias = state_dict.get(f"{name}.{OUTPUT_BIAS}")
        if bias is not None and not hasattr(self, OUTPUT_BIAS):
            weight = self.output_projection.weight
            self.register_buffer(OUTPUT_BIAS, weight.new_zeros(len(weight)))
        result: dict[str, Tensor] = upgrade(self, state_dict, name)
        return result

    return upgrade_state_dict_named


def _adding_bias(output_layer: Callable[..., Tensor]) -> Callable[..., Tensor]:
    def add_bias(self: Any, features: Tensor) -> Tensor:
        # Added after the product, so that its rounding does not depend on the bias.
        logits = output_layer(self, features)
        return logits.add_(getattr(self, OUTPUT_BIAS)) if hasattr(self, OUTPUT_BIAS) else logits

    return add_bias


def _with_ssru(build: Callable[..., nn.Module]) -> Callable[..., nn.Module]:
    """Build an SSRU instead of the decoder's self-attention if the model's options say so."""

    def build_self_attention(self: Any, embed_dim: int, cfg: Any, *args: Any, **kwargs: Any) -> nn.Module:
        if str(cfg.autoregressive_layer) == SSRU_LAYER:
            return SSRU(embed_dim)
        return build(self, embed_dim, cfg, *args, **kwargs)

    return build_self_attention


def _with_epsilon(init: Callable[..., None]) -> Callable[..., None]:
    def init_with_epsilon(self: nn.Module, cfg: Any, *args: Any, **kwargs: Any) -> None:
        init(self, cfg, *args, **kwargs)
        for module in self.modules():
            if hasattr(module, "eps"):
                module.eps = cfg.layer_norm_epsilon

    return init_with_epsilon


class _ZeroStart(nn.Embedding):
    """The table of another module, in which a decoder reads the start symbol as zeros; its row stays the output's."""

    def __init__(self, table: nn.Embedding, start: int) -> None:
        super().__init__(table.num_embeddings, table.embedding_dim, table.padding_idx, _weight=table.weight)
        self.weight, self.start = table.weight, start

    def forward(self, tokens: Tensor) -> Tensor:
        return super().forward(tokens).masked_fill(tokens.eq(self.start).unsqueeze(-1), 0)


def _with_zero_start(init: Callable[..., None]) -> Callable[..., None]:
    def init_with_start(self: Any, cfg: Any, dictionary: Any, embed_tokens: Any, *args: Any, **kwargs: Any) -> None:
        table = _ZeroStart(embed_tokens, dictionary.eos()) if cfg.zero_start else embed_tokens
        init(self, cfg, dictionary, table, *args, **kwargs)

    return init_with_start


_LAYER = option(
    TRANSFORMER_OPTIONS["autoregressive_layer"],
    "how a decoder layer reads the target words so far: by attention, or by the recurrent cell ssru "
    "(Kim et al. 2019) (default: attention)",
)
_EPSILON = option(TRANSFORMER_OPTIONS["layer_norm_epsilon"], "epsilon of the base's layer norms (default: 1e-5)")
_START = option(
    TRANSFORMER_OPTIONS["zero_start"],
    "begin translations with a zero vector instead of the embedding of </s>, as Marian does (default: no)",
)
_MORE = make_dataclass(
    "_MORE",
    [
        ("autoregressive_layer", ChoiceEnum(AUTOREGRESSIVE_LAYERS), _LAYER),
        ("layer_norm_epsilon", float, _EPSILON),
        ("zero_start", bool, _START),
    ],
)


def _with_more_options(known: dict[str, Any]) -> dict[str, Any]:
    """Add the options of this module, and ``swish`` to the choices of ``--activation-fn``."""
    activation = copy(known["activation_fn"])
    activation.type = ChoiceEnum([*utils.get_available_activation_fns(), SWISH])
    return known | {"activation_fn": activation} | {field.name: field for field in fields(_MORE)}


def _default_of(field: Field) -> Callable[[Any], Any]:
    return lambda _: field.default


PATCHES: list[Patch] = [
    (FairseqEncoder, "forward_non_torchscript", lambda _: _call),
    (BaseFairseqModel, "prepare_for_inference_", _lowering),
    (utils, "get_activation_fn", _with_swish),
    (TransformerConfig, "__dataclass_fields__", _with_more_options),
    *((TransformerConfig, field.name, _default_of(field)) for field in fields(_MORE)),
    (TransformerDecoderBase, "upgrade_state_dict_named", _with_bias),
    (TransformerDecoderBase, "output_layer", _adding_bias),
    (TransformerDecoderLayerBase, "build_self_attention", _with_ssru),
    (TransformerEncoderBase, "__init__", _with_epsilon),
    (TransformerDecoderBase, "__init__", _with_epsilon),
    (TransformerDecoderBase, "__init__", _with_zero_start),
]
