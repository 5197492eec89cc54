"""fairseq's models: encoders keep their hooks, ``--decoding-precision``, and what models trained elsewhere need."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from fairseq import utils
from fairseq.dataclass import ChoiceEnum
from fairseq.models import BaseFairseqModel, FairseqEncoder
from fairseq.models.transformer import TransformerConfig, TransformerDecoderBase
from torch import Tensor, nn

from fairseq_ext.patches import Patch

SWISH = "swish"
OUTPUT_BIAS = "output_bias"
_FULL = "float32"


@torch.jit.unused
def _call(encoder: FairseqEncoder, net_input: dict[str, Any]) -> Any:
    """Call an encoder itself, and not its ``forward`` past what is hooked onto it.

    By such a hook, a model that does not route by domain leaves out what an ensemble's other models need.
    """
    return encoder(**{name: value for name, value in net_input.items() if name != "prev_output_tokens"})


def _lowering(prepare: Callable[..., Any]) -> Callable[..., Any]:
    """Models that are made ready for inference take the precision that their command asks for."""

    def prepare_and_lower(model: BaseFairseqModel, cfg: Any) -> None:
        prepare(model, cfg)
        task = getattr(cfg, "task", None)
        lower_precision(model, _FULL if task is None else str(getattr(task, "decoding_precision", _FULL)))

    return prepare_and_lower


def lower_precision(model: nn.Module, precision: str) -> None:
    """Turn the weights and products of a model in evaluation into ``bfloat16``, but not its residual stream."""
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
    """fairseq knows the name, but returns a class in the place of a function."""
    return lambda activation: F.silu if activation == SWISH else known(activation)


def _with_bias(upgrade: Callable[..., Any]) -> Callable[..., Any]:
    """A decoder gets the bias of the output layer that its checkpoint has, if any, as a constant."""

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
        # Apart from the product, whose rounding then does not depend on the bias.
        logits = output_layer(self, features)
        return logits.add_(getattr(self, OUTPUT_BIAS)) if hasattr(self, OUTPUT_BIAS) else logits

    return add_bias


PATCHES: list[Patch] = [
    (FairseqEncoder, "forward_non_torchscript", lambda _: _call),
    (BaseFairseqModel, "prepare_for_inference_", _lowering),
    (utils, "get_activation_fn", _with_swish),
    (TransformerDecoderBase, "upgrade_state_dict_named", _with_bias),
    (TransformerDecoderBase, "output_layer", _adding_bias),
]
_ACTIVATIONS = ChoiceEnum([*utils.get_available_activation_fns(), SWISH])
TransformerConfig.__dataclass_fields__["activation_fn"].type = _ACTIVATIONS
