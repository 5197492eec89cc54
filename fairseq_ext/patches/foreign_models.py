"""Two things that models trained elsewhere need of fairseq's Transformer: swish, and a bias of the output layer."""

from __future__ import annotations

import functools
from typing import Any

import torch.nn.functional as F
from fairseq import utils
from fairseq.dataclass import ChoiceEnum
from fairseq.models.transformer import TransformerConfig, TransformerDecoderBase
from torch import Tensor

SWISH = "swish"
OUTPUT_BIAS = "output_bias"


def offer_swish() -> None:
    """Make ``--activation-fn swish`` work. fairseq knows the name, but returns a class in the place of a function."""
    known = utils.get_activation_fn
    if hasattr(known, "__wrapped__"):
        return

    @functools.wraps(known)
    def get_activation_fn(activation: str) -> Any:
        return F.silu if activation == SWISH else known(activation)

    utils.get_activation_fn = get_activation_fn
    option = TransformerConfig.__dataclass_fields__["activation_fn"]
    option.type = ChoiceEnum([*utils.get_available_activation_fns(), SWISH])


def take_output_biases() -> None:
    """Give a decoder the bias of the output layer that its checkpoint has, if any, as a constant."""
    upgrade, output_layer = TransformerDecoderBase.upgrade_state_dict_named, TransformerDecoderBase.output_layer
    if hasattr(upgrade, "__wrapped__"):
        return

    @functools.wraps(upgrade)
    def upgrade_state_dict_named(self: Any, state_dict: dict[str, Tensor], name: str) -> dict[str, Tensor]:
        bias = state_dict.get(f"{name}.{OUTPUT_BIAS}")
        if bias is not None and not hasattr(self, OUTPUT_BIAS):
            weight = self.output_projection.weight
            self.register_buffer(OUTPUT_BIAS, weight.new_zeros(len(weight)))
        result: dict[str, Tensor] = upgrade(self, state_dict, name)
        return result

    @functools.wraps(output_layer)
    def add_bias(self: Any, features: Tensor) -> Tensor:
        # Apart from the product, whose rounding then does not depend on the bias.
        logits: Tensor = output_layer(self, features)
        return logits.add_(getattr(self, OUTPUT_BIAS)) if hasattr(self, OUTPUT_BIAS) else logits

    TransformerDecoderBase.upgrade_state_dict_named = upgrade_state_dict_named
    TransformerDecoderBase.output_layer = add_bias
