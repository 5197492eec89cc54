"""Changes to fairseq's models: encoder hooks, ``--decoding-precision``, and support for models trained elsewhere.

Every Transformer has three more options. ``--autoregressive-layer ssru`` replaces the decoder's self-attention,
``--layer-norm-epsilon`` sets the epsilon of all norms of the base model, and with ``--zero-start`` the decoder begins
with a zero vector.
"""

import functools
from collections.abc import Callable
from copy import copy
from dataclasses import Field, dataclass, fields
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
from fairseq_ext.patches import Patch, around

SWISH = "swish"
OUTPUT_BIAS = "output_bias"
_FULL = "float32"


@torch.jit.unused
def _call(encoder: FairseqEncoder, net_input: dict[str, Any]) -> Any:
    """Call the encoder instead of its ``forward``, so that its hooks run.

    With such a hook, a model that does not route by domain drops inputs that other models of an ensemble need.
    """
    return encoder(**{name: value for name, value in net_input.items() if name != "prev_output_tokens"})


def _prepare(prepare: Callable[..., Any], model: BaseFairseqModel, cfg: Any) -> None:
    """Apply the command's precision when a model is prepared for inference."""
    prepare(model, cfg)
    task = getattr(cfg, "task", None)
    lower_precision(model, _FULL if task is None else str(getattr(task, "decoding_precision", _FULL)))


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


def _activation(known: Callable[[str], Any], activation: str) -> Any:
    """Return the function for ``swish``; fairseq returns a class."""
    return F.silu if activation == SWISH else known(activation)


def _upgrade(upgrade: Callable[..., Any], decoder: Any, state_dict: dict[str, Tensor], name: str) -> Any:
    """Add the output-layer bias of a checkpoint, if it has one, to the decoder as a buffer."""
    bias = state_dict.get(f"{name}.{OUTPUT_BIAS}")
    if bias is not None and not hasattr(decoder, OUTPUT_BIAS):
        weight = decoder.output_projection.weight
        decoder.register_buffer(OUTPUT_BIAS, weight.new_zeros(len(weight)))
    return upgrade(decoder, state_dict, name)


def _output_layer(output_layer: Callable[..., Tensor], decoder: Any, features: Tensor) -> Tensor:
    # The bias is added after the product, so that its rounding does not depend on the bias.
    logits = output_layer(decoder, features)
    return logits.add_(getattr(decoder, OUTPUT_BIAS)) if hasattr(decoder, OUTPUT_BIAS) else logits


def _build_self_attention(
    build: Callable[..., nn.Module], layer: Any, embed_dim: int, cfg: Any, *args: Any, **kwargs: Any
) -> nn.Module:
    """Build an SSRU instead of the decoder's self-attention if the model's options say so."""
    if str(cfg.autoregressive_layer) == SSRU_LAYER:
        return SSRU(embed_dim)
    return build(layer, embed_dim, cfg, *args, **kwargs)


def _init_with_epsilon(init: Callable[..., None], model: nn.Module, cfg: Any, *args: Any, **kwargs: Any) -> None:
    init(model, cfg, *args, **kwargs)
    for module in model.modules():
        if hasattr(module, "eps"):
            module.eps = cfg.layer_norm_epsilon


class _ZeroStart(nn.Embedding):
    """The table of another module, in which a decoder reads the start symbol as zeros; its row stays the output's."""

    def __init__(self, table: nn.Embedding, start: int) -> None:
        super().__init__(table.num_embeddings, table.embedding_dim, table.padding_idx, _weight=table.weight)
        self.weight, self.start = table.weight, start

    def forward(self, tokens: Tensor) -> Tensor:
        return super().forward(tokens).masked_fill(tokens.eq(self.start).unsqueeze(-1), 0)


def _init_with_start(
    init: Callable[..., None], decoder: Any, cfg: Any, dictionary: Any, embed_tokens: Any, *args: Any, **kwargs: Any
) -> None:
    table = _ZeroStart(embed_tokens, dictionary.eos()) if cfg.zero_start else embed_tokens
    init(decoder, cfg, dictionary, table, *args, **kwargs)


@dataclass
class _More:
    """Options that every Transformer has in addition."""

    autoregressive_layer: ChoiceEnum(AUTOREGRESSIVE_LAYERS) = option(  # type: ignore[valid-type]
        TRANSFORMER_OPTIONS["autoregressive_layer"],
        "how a decoder layer reads the target words so far: by attention, or by the recurrent cell ssru "
        "(Kim et al. 2019) (default: attention)",
    )
    layer_norm_epsilon: float = option(
        TRANSFORMER_OPTIONS["layer_norm_epsilon"], "epsilon of the base's layer norms (default: 1e-5)"
    )
    zero_start: bool = option(
        TRANSFORMER_OPTIONS["zero_start"],
        "begin translations with a zero vector instead of the embedding of </s>, as Marian does (default: no)",
    )


def _with_more_options(known: dict[str, Any]) -> dict[str, Any]:
    """Add the options of this module, and ``swish`` to the choices of ``--activation-fn``."""
    activation = copy(known["activation_fn"])
    activation.type = ChoiceEnum([*utils.get_available_activation_fns(), SWISH])
    return known | {"activation_fn": activation} | {field.name: field for field in fields(_More)}


def _default_of(field: Field) -> Callable[[Any], Any]:
    return lambda _: field.default


PATCHES: list[Patch] = [
    (FairseqEncoder, "forward_non_torchscript", lambda _: _call),
    (BaseFairseqModel, "prepare_for_inference_", around(_prepare)),
    (utils, "get_activation_fn", around(_activation)),
    (TransformerConfig, "__dataclass_fields__", _with_more_options),
    *((TransformerConfig, field.name, _default_of(field)) for field in fields(_More)),
    (TransformerDecoderBase, "upgrade_state_dict_named", around(_upgrade)),
    (TransformerDecoderBase, "output_layer", around(_output_layer)),
    (TransformerDecoderLayerBase, "build_self_attention", around(_build_self_attention)),
    *((side, "__init__", around(_init_with_epsilon)) for side in (TransformerEncoderBase, TransformerDecoderBase)),
    (TransformerDecoderBase, "__init__", around(_init_with_start)),
]
