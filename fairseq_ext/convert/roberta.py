"""Convert a Hugging Face RoBERTa, XLM-R or BERT to a checkpoint of fairseq's ``roberta``.

Both libraries compute the same function. They differ in the names; the order of the symbols; and fairseq's table of
positions, which begins with two unused rows.

fairseq has no embeddings of token types. Since all texts have type 0, its row is added to the positions. The difference
between BERT's types 1 and 0 is kept for pairs of texts, see :mod:`fairseq_ext.modules.token_types`. A model without a
head for masked tokens gets a head of zeros.

BERT has the same layers. It numbers positions from 0, RoBERTa from 2. Its layer norms have another epsilon, which
:mod:`fairseq_ext.models.bert` stores with the weights.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from fairseq_ext.base.errors import InputError, naming
from fairseq_ext.base.fairseq_cli import as_arguments
from fairseq_ext.convert.fairseq_model import check_shapes, write_checkpoint
from fairseq_ext.convert.hugging_face import (
    CONFIG_FILE,
    check_fixed,
    load_weights,
    read_rate,
    read_size,
    weight_file,
)
from fairseq_ext.convert.subwords import read_vocabulary, write_subwords
from fairseq_ext.convert.tokenizer_checks import check_same_pieces
from fairseq_ext.models.bert import ENTRY, norm_eps_entry
from fairseq_ext.models.bert import NORM_EPS as BERTS_NORM_EPS
from fairseq_ext.modules.pretrained import read_json
from fairseq_ext.modules.token_types import SECOND_TEXT
from fairseq_ext.patches.checkpoints import check_weights
from fairseq_ext.text.byte_level_bpe import ByteLevelBpe
from fairseq_ext.text.encoders import load_encoder

# Hugging Face's default for missing values, which is not RoBERTa's.
_DEFAULTS = {"layer_norm_eps": 1e-12}
# Keys of config.json, each with options of fairseq.
_LENGTH, _WIDTH, _NUM_LAYERS = "max_position_embeddings", "hidden_size", "num_hidden_layers"
_SIZES: Mapping[str, Sequence[str]] = {
    _LENGTH: ["max_positions", "tokens_per_sample"],
    _WIDTH: ["encoder_embed_dim"],
    _NUM_LAYERS: ["encoder_layers"],
    "num_attention_heads": ["encoder_attention_heads"],
    "intermediate_size": ["encoder_ffn_embed_dim"],
}
_RATES = {"hidden_dropout_prob": "dropout", "attention_probs_dropout_prob": "attention_dropout"}
# Names of tensors and modules in Hugging Face's files, and fairseq's names.
_FAIRSEQ = "encoder.sentence_encoder."
_TYPES, _EMBEDDING, _POSITIONS = (f"embeddings.{name}_embeddings.weight" for name in ("token_type", "word", "position"))
_HEAD, _BIAS = "lm_head.", "lm_head.bias"
_COPIES = {f"{_HEAD}decoder.weight": _EMBEDDING, f"{_HEAD}decoder.bias": _BIAS}  # files may contain them
_BY_SYMBOL = {
    _EMBEDDING: [f"{_FAIRSEQ}embed_tokens.weight", "encoder.lm_head.weight"],
    _BIAS: ["encoder.lm_head.bias"],
}
_MODULES = {
    "embeddings.LayerNorm": f"{_FAIRSEQ}layernorm_embedding",
    f"{_HEAD}dense": "encoder.lm_head.dense",
    f"{_HEAD}layer_norm": "encoder.lm_head.layer_norm",
}
_LAYER = "encoder.layer."
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
# Numbers of positions and types in old files, a layer that masked-token training does not use, BERT's next sentence.
_UNUSED = re.compile(r"embeddings\.(position|token_type)_ids|pooler\..*|cls\.seq_relationship\..*")
# Unused rows of fairseq's table of positions, which are numbered after <pad>.
_UNUSED_ROWS = 2

Config = dict[str, Any]


@dataclass(frozen=True)
class _Family:
    """What differs between RoBERTa, with XLM-R, and BERT."""

    name: str  # for messages
    arch: str  # of fairseq
    norm_eps: float
    pad: int  # number of <pad>
    unused_positions: int  # unused rows of Hugging Face's table of positions
    prefix: str  # optional prefix of tensor names
    aliases: Mapping[str, str] = field(default_factory=dict)  # other names of modules

    @property
    def fixed(self) -> Mapping[str, Any]:
        """Values of ``config.json``: fairseq's head uses the layers' activation, Hugging Face's always the GELU."""
        return {
            "hidden_act": "gelu",
            "layer_norm_eps": self.norm_eps,
            "position_embedding_type": "absolute",
            "pad_token_id": self.pad,
            "is_decoder": False,
            "add_cross_attention": False,
            "tie_word_embeddings": True,
        }

    def own_name(self, name: str) -> str:
        """Return RoBERTa's name of a tensor."""
        module, dot, kind = name.removeprefix(self.prefix).rpartition(".")
        return f"{self.aliases.get(module, module)}{dot}{kind}"


_ROBERTA = _Family("RoBERTa", "roberta", 1e-5, 1, 2, "roberta.")
_BERT_HEAD = "cls.predictions"
_BERT = _Family(
    *("BERT", "bert", BERTS_NORM_EPS, 0, 0, "bert."),
    aliases={
        f"{_BERT_HEAD}.transform.dense": f"{_HEAD}dense",
        f"{_BERT_HEAD}.transform.LayerNorm": f"{_HEAD}layer_norm",
        f"{_BERT_HEAD}.decoder": f"{_HEAD}decoder",
        _BERT_HEAD: "lm_head",
    },
)
# By model_type. RoBERTa and XLM-R differ only in their subwords.
_FAMILIES = {"roberta": _ROBERTA, "xlm-roberta": _ROBERTA, "bert": _BERT}


def import_roberta(source: Path, folder: Path) -> None:
    """Convert a RoBERTa, XLM-R or BERT of any size into an existing folder."""
    path, where = source / CONFIG_FILE, weight_file(source)
    content = _DEFAULTS | read_json(path)
    kind = content.get("model_type")
    if kind not in _FAMILIES:
        raise InputError(f"{path}: unknown model_type {kind!r}; expected roberta, xlm-roberta or bert")
    family = _FAMILIES[kind]
    vocabulary = read_vocabulary(source)
    write_subwords(folder, vocabulary)
    check_same_pieces(source, load_encoder(folder), isinstance(vocabulary, ByteLevelBpe))
    config = _read_config(content, family, len(vocabulary), path)
    weights = _read_weights(source, family, config[_NUM_LAYERS])
    if not any(name.startswith(_HEAD) for name in weights):
        print(f"{where}: has no head for masked tokens; the checkpoint gets an untrained one", file=sys.stderr)
        weights |= _zero_head(config["vocab_size"], config[_WIDTH])
    types, line = (read_size(content, "type_vocab_size", path), config[_WIDTH]), _arguments(config, family)
    with naming(where):
        second_text = _add_types_to_positions(weights, types, family)
        state = _to_fairseq(weights, vocabulary.order(), family, config[_NUM_LAYERS])
        if family is _BERT:
            state[f"encoder.{ENTRY}"] = norm_eps_entry(BERTS_NORM_EPS)
            if second_text is not None:
                state[f"{_FAIRSEQ}{SECOND_TEXT}"] = second_text
        check_shapes(state, line, [config["vocab_size"]])
    write_checkpoint(folder, state, line, "MaskedLmLoss")


def _read_config(content: Mapping[str, Any], family: _Family, num_symbols: int, path: Path) -> Config:
    """Validate ``config.json``, and return the values that differ between models of the family."""
    check_fixed(content, family.fixed, path)
    config: Config = {key: read_size(content, key, path) for key in ("vocab_size", *_SIZES)}
    config |= {key: read_rate(content, key, path) for key in _RATES}
    if config["vocab_size"] != num_symbols:
        raise InputError(
            f"{path}: vocab_size is {config['vocab_size']}, but the tokeniser has {num_symbols} symbols; give "
            "the tokeniser of this model"
        )
    return config


def _arguments(config: Config, family: _Family) -> list[str]:
    """Return the options of ``fairseq-train`` that build the model."""
    values = {**config, _LENGTH: config[_LENGTH] - family.unused_positions}
    options = {"task": "masked_lm", "criterion": "masked_lm", "arch": family.arch}
    options |= {name: values[key] for key, names in _SIZES.items() for name in names}
    return as_arguments(options | {name: values[key] for key, name in _RATES.items()})


def _read_weights(folder: Path, family: _Family, layers: int) -> dict[str, Tensor]:
    """Read the weights in single precision by RoBERTa's names, without the prefix, copies and unused tensors."""
    named = {family.own_name(name): value for name, value in load_weights(folder).items()}
    weights = {name: value for name, value in named.items() if not _UNUSED.fullmatch(name)}
    with naming(weight_file(folder)):
        check_weights(weights)
        found = len({name.removeprefix(_LAYER).split(".")[0] for name in weights if name.startswith(_LAYER)})
        # A wrong number could make the list of expected tensors huge.
        if found != layers:
            raise InputError(f"has {found} layers, but {CONFIG_FILE} says {layers}")
        for copy, original in _COPIES.items():
            value = weights.pop(copy, None)
            if value is not None:
                weights.setdefault(original, value)
    return {name: value.float() for name, value in weights.items()}


def _zero_head(symbols: int, width: int) -> dict[str, Tensor]:
    sizes: Mapping[str, tuple[int, ...]] = {
        _BIAS: (symbols,),
        f"{_HEAD}dense.weight": (width, width),
        **{f"{_HEAD}{name}": (width,) for name in ("dense.bias", "layer_norm.weight", "layer_norm.bias")},
    }
    return {name: torch.zeros(size) for name, size in sizes.items()}


def _add_types_to_positions(weights: dict[str, Tensor], expected: tuple[int, int], family: _Family) -> Tensor | None:
    """Add token type 0 to the positions. Return the difference of type 1, if there is one."""
    types, positions = weights.pop(_TYPES, torch.empty(0)), weights.get(_POSITIONS, torch.empty(0))
    if tuple(types.shape) != expected or positions.shape[1:] != expected[1:]:
        raise InputError(f"the rows of {_TYPES!r} and {_POSITIONS!r} do not have {expected[1]} values")
    positions = positions.clone()
    positions[family.unused_positions :] += types[0]
    weights[_POSITIONS] = positions
    return types[1] - types[0] if len(types) > 1 else None


def _to_fairseq(weights: Mapping[str, Tensor], order: Sequence[int], family: _Family, layers: int) -> dict[str, Tensor]:
    """Convert weights to fairseq's names and layout; ``order`` lists the V symbols' numbers in fairseq's order."""
    left = dict(weights)
    state: dict[str, Tensor] = {}
    for theirs, names in _BY_SYMBOL.items():
        table = _take(left, theirs)
        if not table.dim() or len(table) != len(order):
            raise InputError(f"{theirs!r} has the shape {tuple(table.shape)}, expected {len(order)} rows")
        state |= dict.fromkeys(names, table[list(order)])
    table = _take(left, _POSITIONS)
    unused = table.new_zeros(_UNUSED_ROWS - family.unused_positions, *table.shape[1:])
    state[f"{_FAIRSEQ}embed_positions.weight"] = torch.cat([unused, table])
    state[f"{_FAIRSEQ}version"] = torch.tensor([3.0])
    for theirs, ours in _modules(layers):
        state |= {f"{ours}.{kind}": _take(left, f"{theirs}.{kind}") for kind in ("weight", "bias")}
    if left:
        raise InputError(f"the tensor {next(iter(left))!r} is unknown; only plain {family.name} can be converted")
    return state


def _modules(layers: int) -> Iterator[tuple[str, str]]:
    """Yield Hugging Face's and fairseq's names of every module with a weight and a bias."""
    yield from _MODULES.items()
    for number in range(layers):
        for theirs, ours in _LAYER_MODULES.items():
            yield f"{_LAYER}{number}.{theirs}", f"{_FAIRSEQ}layers.{number}.{ours}"


def _take(weights: dict[str, Tensor], name: str) -> Tensor:
    if name not in weights:
        raise InputError(f"the tensor {name!r} is missing; the file is incomplete or belongs to another model")
    return weights.pop(name)
