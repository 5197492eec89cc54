"""A GPT-2 directory of Hugging Face's: ``config.json`` and weights, read without running anything that is in them."""

from __future__ import annotations

import json
import pickle
import struct
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from fairseq_ext.errors import InputError
from fairseq_ext.gpt2.vocabulary import read_json
from fairseq_ext.gpt2.weights import Shape, check_weights, gpt2_shapes
from fairseq_ext.training.checkpoints import require_weights_only

CONFIG_FILE = "config.json"
# The first that is there is read; an index lists the files that a large model is cut into.
_WEIGHT_FILES = (
    "model.safetensors",
    "model.safetensors.index.json",
    "pytorch_model.bin",
    "pytorch_model.bin.index.json",
)
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
_DAMAGED = (
    *(SafetensorError, pickle.UnpicklingError, zipfile.BadZipFile, struct.error, OSError, EOFError, RuntimeError),
    *(ValueError, KeyError, TypeError, AttributeError, IndexError, MemoryError, OverflowError),
)


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
    for key, value in _FIXED.items():
        if content.get(key, value) != value:
            raise InputError(f"{path}: {key} is {content[key]!r}; only models with {value!r} can be converted")
    activation = content.get("activation_function", Gpt2Config.activation_function)
    if not isinstance(activation, str) or activation not in ACTIVATIONS:
        raise InputError(f"{path}: activation_function: {activation!r} is none of {', '.join(ACTIVATIONS)}")
    width = _size(content, "n_embd", path)
    config = Gpt2Config(
        vocab_size=_size(content, "vocab_size", path),
        n_positions=_size(content, "n_positions", path),
        n_embd=width,
        n_layer=_size(content, "n_layer", path),
        n_head=_size(content, "n_head", path),
        n_inner=4 * width if content.get("n_inner") is None else _size(content, "n_inner", path),
        activation_function=activation,
        resid_pdrop=_rate(content, "resid_pdrop", path),
        attn_pdrop=_rate(content, "attn_pdrop", path),
    )
    if config.n_embd % config.n_head:
        raise InputError(f"{path}: n_embd {config.n_embd} is no multiple of n_head {config.n_head}")
    return config


def read_weights(folder: Path, config: Gpt2Config) -> dict[str, Tensor]:
    """Read the weights in single precision, by their names without the prefix ``transformer.``.

    Raises:
        InputError: naming the file that is missing, damaged, holds more than weights, or is not of this ``config``.
    """
    path = weight_file(folder)
    weights: dict[str, Tensor] = {}
    for part in _parts(path):
        weights |= {name.removeprefix(_PREFIX): value for name, value in _load(part).items()}
    weights = {name: value for name, value in weights.items() if not name.endswith(_BUFFERS)}
    output = weights.pop(_OUTPUT, None)
    # Before a list of expected tensors is made, which a wrong config.json could make endless.
    layers = len({name.split(".")[1] for name in weights if name.startswith("h.")})
    if layers != config.n_layer:
        raise InputError(f"{path}: has {layers} layers, but {CONFIG_FILE} says {config.n_layer}")
    check_weights(weights, gpt2_shapes(config.shape), str(path))
    if output is not None and not torch.equal(output, weights["wte.weight"]):
        raise InputError(f"{path}: {_OUTPUT!r} is not the embedding; only models with tied embeddings can be converted")
    return {name: value.float() for name, value in weights.items()}


def weight_file(folder: Path) -> Path:
    """The file with the weights, or with the list of the files that have them.

    Raises:
        InputError: if there is none.
    """
    for name in _WEIGHT_FILES:
        if (folder / name).is_file():
            return folder / name
    raise InputError(f"{folder}: holds no weights; a GPT-2 directory has {' or '.join(_WEIGHT_FILES[::2])}")


def input_files(folder: Path) -> list[Path]:
    """All files that hold weights, the list of them included."""
    path = weight_file(folder)
    return [path, *(part for part in _parts(path) if part != path)]


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
    (folder / CONFIG_FILE).write_text(json.dumps(content, indent=2, sort_keys=True) + "\n", encoding="utf-8")
    named = {_PREFIX + name: value.contiguous() for name, value in weights.items()}
    save_file(named, folder / "model.safetensors", metadata={"format": "pt"})


def _parts(path: Path) -> list[Path]:
    """The files with weights that an index lists, or the one file itself."""
    if not path.name.endswith(".index.json"):
        return [path]
    files = read_json(path).get("weight_map")
    if not isinstance(files, dict) or not files:
        raise InputError(f"{path}: lists no files; 'weight_map' should say where each tensor is")
    names = sorted({str(name) for name in files.values()})
    for name in names:
        # A list that someone else wrote must not lead out of the folder.
        if Path(name).name != name:
            raise InputError(f"{path}: {name!r} is no file name")
        if not (path.parent / name).is_file():
            raise InputError(f"{path.parent / name}: not found; {path.name} lists it")
    return [path.parent / name for name in names]


def _load(path: Path) -> dict[str, Tensor]:
    require_weights_only()
    try:
        if path.suffix == ".safetensors":
            weights = load_file(path)
        else:
            weights = torch.load(path, map_location="cpu", weights_only=True)
    except _DAMAGED as error:
        reason = " ".join((str(error) or type(error).__name__).split())[:200]
        raise InputError(f"{path}: damaged, cut off, or more than weights ({reason})") from None
    if not isinstance(weights, dict) or not all(
        isinstance(name, str) and isinstance(value, Tensor) for name, value in weights.items()
    ):
        raise InputError(f"{path}: expected tensors by name; it is no file of weights")
    return weights


def _size(content: Mapping[str, Any], key: str, path: Path) -> int:
    value = content.get(key)
    if type(value) is not int or value < 1:
        raise InputError(f"{path}: {key}: expected a whole number above 0, got {value!r}")
    return value


def _rate(content: Mapping[str, Any], key: str, path: Path) -> float:
    value = content.get(key, 0.1)
    if type(value) not in (int, float) or not 0 <= value < 1:
        raise InputError(f"{path}: {key}: expected a rate from 0 to 1, got {value!r}")
    return float(value)
