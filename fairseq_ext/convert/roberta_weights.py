"""The weights of RoBERTa and those of fairseq's ``roberta``: other names, the same numbers.

Both count positions from 2. fairseq has no embeddings of token types; since RoBERTa's texts are all of type 0, that
row is added to the positions. A model without a head for masked tokens gets one of zeros.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import torch
from torch import Tensor

from fairseq_ext.convert.roberta_config import UNUSED_POSITIONS, RobertaConfig
from fairseq_ext.convert.weight_files import (
    check_num_layers,
    check_tied,
    check_weights,
    count_layers,
    load_weights,
    weight_file,
)
from fairseq_ext.inputs.errors import InputError

MODEL = "RoBERTa"
_PREFIX, _LAYER = "roberta.", "encoder.layer."
_EMBEDDING, POSITIONS = "embeddings.word_embeddings.weight", "embeddings.position_embeddings.weight"
_TYPES, _BIAS, _HEAD = "embeddings.token_type_embeddings.weight", "lm_head.bias", "lm_head."
# Copies of other tensors, which some files have.
_TIED, _TIED_BIAS = "lm_head.decoder.weight", "lm_head.decoder.bias"
# Numbers that old files carry with the weights, and a layer that the training on masked tokens does not use.
_UNUSED = ("embeddings.position_ids", "embeddings.token_type_ids", "pooler.")

_FAIRSEQ = "encoder.sentence_encoder."
_FAIRSEQ_EMBEDDING, _FAIRSEQ_POSITIONS = f"{_FAIRSEQ}embed_tokens.weight", f"{_FAIRSEQ}embed_positions.weight"
_FAIRSEQ_OUTPUT, _FAIRSEQ_BIAS = "encoder.lm_head.weight", "encoder.lm_head.bias"
_VERSION = f"{_FAIRSEQ}version"
# Of adapters and heads of tasks, which a plain checkpoint has not.
_TASKS = "tasks."
# Hugging Face's name and fairseq's: outside the layers, and within one.
_MODULES = {
    "embeddings.LayerNorm": f"{_FAIRSEQ}layernorm_embedding",
    "lm_head.dense": "encoder.lm_head.dense",
    "lm_head.layer_norm": "encoder.lm_head.layer_norm",
}
_LAYER_MODULES = {
    "attention.self.query": "self_attn.q_proj",
    "attention.self.key": "self_attn.k_proj",
    "attention.self.value": "self_attn.v_proj",
    "attention.output.dense": "self_attn.out_proj",
    "attention.output.LayerNorm": "self_attn_layer_norm",
    "intermediate.dense": "fc1",
    "output.dense": "fc2",
    "output.LayerNorm": "final_layer_norm",
}


def read_weights(folder: Path, config: RobertaConfig) -> dict[str, Tensor]:
    """Read the weights in single precision, by their names without the prefix ``roberta.``.

    Raises:
        InputError: naming the file that is missing, damaged, holds more than weights, or is not of this ``config``.
    """
    weights = {name.removeprefix(_PREFIX): value for name, value in load_weights(folder).items()}
    return complete_weights(weights, config, str(weight_file(folder)))


def complete_weights(weights: Mapping[str, Tensor], config: RobertaConfig, where: str) -> dict[str, Tensor]:
    """Check tensors, leave those out that are not used, and add a head for masked tokens where there is none.

    Args:
        weights: by RoBERTa's names without the prefix ``roberta.``.
        config: the model's.
        where: the file, for messages.

    Returns:
        The weights in single precision.

    Raises:
        InputError: naming a tensor that is missing, unknown or of another shape.
    """
    weights = {name: value for name, value in weights.items() if not name.startswith(_UNUSED)}
    output, bias = weights.pop(_TIED, None), weights.pop(_TIED_BIAS, None)
    if bias is not None:
        weights.setdefault(_BIAS, bias)
    check_num_layers(weights, _LAYER, config.num_hidden_layers, where)
    expected = roberta_shapes(config)
    if not any(name.startswith(_HEAD) for name in weights):
        print(f"{where}: has no head for masked tokens; the checkpoint gets one that knows nothing", file=sys.stderr)
        weights |= {name: torch.zeros(size) for name, size in expected.items() if name.startswith(_HEAD)}
    check_weights(weights, expected, where, MODEL)
    check_tied(output, weights[_EMBEDDING], _TIED, where)
    return {name: value.float() for name, value in weights.items()}


def named_for_hugging_face(weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Put the prefix that ``RobertaForMaskedLM`` has before all but its head."""
    return {name if name.startswith(_HEAD) else _PREFIX + name: value for name, value in weights.items()}


def roberta_shapes(config: RobertaConfig) -> dict[str, tuple[int, ...]]:
    """The shape of every tensor, by Hugging Face's name without the prefix ``roberta.``."""
    width, inner = config.hidden_size, config.intermediate_size
    shapes: dict[str, tuple[int, ...]] = {
        _EMBEDDING: (config.vocab_size, width),
        POSITIONS: (config.max_position_embeddings, width),
        _TYPES: (config.type_vocab_size, width),
        _BIAS: (config.vocab_size,),
    }
    feed_forward = {"fc1": (inner, width), "fc2": (width, inner)}
    for theirs, ours in _modules(config.num_hidden_layers):
        module = ours.rpartition(".")[2]
        rows, columns = feed_forward.get(module, (width, width))
        shapes |= {f"{theirs}.weight": (width,) if "norm" in module else (rows, columns), f"{theirs}.bias": (rows,)}
    return shapes


def fairseq_shapes(config: RobertaConfig) -> dict[str, tuple[int, ...]]:
    """The shape of every tensor of the same model in fairseq."""
    empty = {name: torch.empty(size, device="meta") for name, size in roberta_shapes(config).items()}
    return {name: tuple(value.shape) for name, value in to_fairseq(empty, range(config.vocab_size)).items()}


def to_fairseq(weights: Mapping[str, Tensor], order: Sequence[int]) -> dict[str, Tensor]:
    """Name a RoBERTa's weights as fairseq's ``roberta`` does.

    Args:
        weights: by Hugging Face's names, without the prefix ``roberta.``; all of them.
        order: by row of fairseq's embeddings, Hugging Face's number of the symbol.

    Shape:
        order: V
    """
    rows = list(order)
    embedding, positions = weights[_EMBEDDING][rows], weights[POSITIONS]
    used = positions[UNUSED_POSITIONS:] + weights[_TYPES][0]
    state = {
        _VERSION: positions.new_full((1,), 3.0),
        _FAIRSEQ_EMBEDDING: embedding,
        _FAIRSEQ_OUTPUT: embedding,
        _FAIRSEQ_POSITIONS: torch.cat([positions[:UNUSED_POSITIONS], used]),
        _FAIRSEQ_BIAS: weights[_BIAS][rows],
    }
    for theirs, ours in _modules(count_layers(weights, _LAYER)):
        state |= {f"{ours}.{kind}": weights[f"{theirs}.{kind}"] for kind in ("weight", "bias")}
    return state


def to_roberta(state: Mapping[str, Tensor], order: Sequence[int]) -> dict[str, Tensor]:
    """Undo :func:`to_fairseq`; the one row of token types is zero."""
    rows = list(order)
    embedding, bias = torch.empty_like(state[_FAIRSEQ_EMBEDDING]), torch.empty_like(state[_FAIRSEQ_BIAS])
    embedding[rows], bias[rows] = state[_FAIRSEQ_EMBEDDING], state[_FAIRSEQ_BIAS]
    weights = {
        _EMBEDDING: embedding,
        POSITIONS: state[_FAIRSEQ_POSITIONS],
        _TYPES: embedding.new_zeros(1, embedding.shape[1]),
        _BIAS: bias,
    }
    for theirs, ours in _modules(num_layers(state)):
        weights |= {f"{theirs}.{kind}": state[f"{ours}.{kind}"] for kind in ("weight", "bias")}
    return weights


def num_layers(state: Mapping[str, Tensor]) -> int:
    """The layers of a checkpoint of fairseq's."""
    return count_layers(state, f"{_FAIRSEQ}layers.")


def refuse_tasks(state: Mapping[str, Tensor], where: str) -> None:
    """Refuse a checkpoint that is more than its base.

    Raises:
        InputError: if it holds adapters, norms or heads of tasks.
    """
    names = sorted({name.split(".")[1] for name in state if name.startswith(_TASKS)})
    if names:
        raise InputError(
            f"{where}: holds task {', '.join(names)}, for which Hugging Face's {MODEL} has no place; export the base "
            "that its adapters were trained on"
        )


def _modules(num_layers: int) -> Iterator[tuple[str, str]]:
    """Hugging Face's name and fairseq's of every module with a weight and a bias."""
    yield from _MODULES.items()
    for layer in range(num_layers):
        for theirs, ours in _LAYER_MODULES.items():
            yield f"{_LAYER}{layer}.{theirs}", f"{_FAIRSEQ}layers.{layer}.{ours}"
