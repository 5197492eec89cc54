"""A GPT-2 directory of Hugging Face's: ``config.json`` and weights."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor

from fairseq_ext.convert.config_file import (
    CONFIG_FILE,
    check_fixed,
    read_json,
    read_rate,
    read_size,
    write_config,
)
from fairseq_ext.convert.gpt2_weights import Shape, gpt2_shapes
from fairseq_ext.convert.weight_files import (
    check_num_layers,
    check_tied,
    check_weights,
    load_weights,
    save_weights,
    weight_file,
)
from fairseq_ext.inputs.errors import InputError

_PREFIX = "transformer."
_OUTPUT = "lm_head.weight"
# The causal mask, which old files carry with the weights.
_BUFFERS = (".attn.bias", ".attn.masked_bias")
# By Hugging Face's name, fairseq's, whose "accurate" GELU is the approximation by a tanh.
ACTIVATIONS = {"gelu_new": "gelu_accurate", "gelu_pytorch_tanh": "gelu_accurate", "gelu": "gelu", "relu": "relu"}
# What fairseq's Transformer cannot be told: any other value would give other logits.
_FIXED = {
    "model_type": "gpt2",
    "layer_norm_epsilon": 1e-5,
    "scale_attn_weights": True,
    "scale_attn_by_inverse_layer_idx": False,
    "add_cross_attention": False,
    "tie_word_embeddings": True,
}


@dataclass(frozen=True)
class Gpt2Config:
    """What ``config.json`` says of a GPT-2, under Hugging Face's names."""

    vocab_size: int
    n_positions: int
    n_embd: int
    n_layer: int
    n_head: int
    n_inner: int
    activation_function: str = "gelu_new"
    resid_pdrop: float = 0.1
    attn_pdrop: float = 0.1

    @property
    def shape(self) -> Shape:
        """The sizes of its tensors."""
        return Shape(self.vocab_size, self.n_positions, self.n_embd, self.n_inner, self.n_layer)


def read_config(folder: Path) -> Gpt2Config:
    """Read ``config.json``.

    Raises:
        InputError: naming the key that is missing, ill-formed or asks for what fairseq's Transformer does not do.
    """
    path = folder / CONFIG_FILE
    content = read_json(path)
    check_fixed(content, _FIXED, path)
    activation = content.get("activation_function", Gpt2Config.activation_function)
    if not isinstance(activation, str) or activation not in ACTIVATIONS:
        raise InputError(f"{path}: activation_function: {activation!r} is none of {', '.join(ACTIVATIONS)}")
    width = read_size(content, "n_embd", path)
    config = Gpt2Config(
        vocab_size=read_size(content, "vocab_size", path),
        n_positions=read_size(content, "n_positions", path),
        n_embd=width,
        n_layer=read_size(content, "n_layer", path),
        n_head=read_size(content, "n_head", path),
        n_inner=4 * width if content.get("n_inner") is None else read_size(content, "n_inner", path),
        activation_function=activation,
        resid_pdrop=read_rate(content, "resid_pdrop", path),
        attn_pdrop=read_rate(content, "attn_pdrop", path),
    )
    if config.n_embd % config.n_head:
        raise InputError(f"{path}: n_embd {config.n_embd} is no multiple of n_head {config.n_head}")
    return config


def read_weights(folder: Path, config: Gpt2Config) -> dict[str, Tensor]:
    """Read the weights in single precision, by their names without the prefix ``transformer.``.

    Raises:
        InputError: naming the file that is missing, damaged, holds more than weights, or is not of this ``config``.
    """
    where = str(weight_file(folder))
    weights = {name.removeprefix(_PREFIX): value for name, value in load_weights(folder).items()}
    weights = {name: value for name, value in weights.items() if not name.endswith(_BUFFERS)}
    output = weights.pop(_OUTPUT, None)
    check_num_layers(weights, "h.", config.n_layer, where)
    check_weights(weights, gpt2_shapes(config.shape), where, "GPT-2")
    check_tied(output, weights["wte.weight"], _OUTPUT, where)
    return {name: value.float() for name, value in weights.items()}


def write_model(folder: Path, config: Gpt2Config, weights: Mapping[str, Tensor], end_of_text: int) -> None:
    """Write ``config.json`` and ``model.safetensors``.

    Args:
        folder: where to write.
        config: the model's.
        weights: by Hugging Face's names without the prefix.
        end_of_text: the number of ``<|endoftext|>``.
    """
    content: dict[str, Any] = {
        "architectures": ["GPT2LMHeadModel"],
        **_FIXED,
        **vars(config),
        "embd_pdrop": config.resid_pdrop,
        "bos_token_id": end_of_text,
        "eos_token_id": end_of_text,
    }
    write_config(folder, content)
    save_weights(folder, {_PREFIX + name: value for name, value in weights.items()})
