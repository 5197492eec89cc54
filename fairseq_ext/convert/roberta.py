"""Convert a Hugging Face RoBERTa, XLM-R or BERT to a checkpoint of fairseq's ``roberta``.

fairseq has no embeddings of token types. Since all texts have type 0, its row is added to the positions. The difference
between BERT's types 1 and 0 is kept for pairs of texts, see :mod:`fairseq_ext.modules.token_types`. A model without a
head for masked tokens gets a head of zeros.

BERT has the same layers. It numbers positions from 0, RoBERTa from 2. Its layer norms have another epsilon, which
:mod:`fairseq_ext.models.bert` stores with the weights.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import torch
from torch import Tensor

from fairseq_ext.base.errors import InputError
from fairseq_ext.convert.hugging_face import CONFIG_FILE, read_json, read_size, weight_file
from fairseq_ext.convert.language_models import (
    ModelFamily,
    read_config,
    read_weights,
    to_fairseq,
    write_model,
)
from fairseq_ext.convert.subwords import read_vocabulary, write_subwords
from fairseq_ext.models.bert import ENTRY, norm_eps_entry
from fairseq_ext.models.bert import NORM_EPS as BERTS_NORM_EPS
from fairseq_ext.modules.token_types import SECOND_TEXT

# They differ only in their subwords.
_CLASSES = {"roberta": "RobertaForMaskedLM", "xlm-roberta": "XLMRobertaForMaskedLM"}
# Hugging Face's default for missing values, which is not RoBERTa's.
_DEFAULTS = {"layer_norm_eps": 1e-12}
_TYPES, _NUM_TYPES, _WIDTH = "embeddings.token_type_embeddings.weight", "type_vocab_size", "hidden_size"
_HEAD, _BIAS = "lm_head.", "lm_head.bias"
_EMBEDDING, _POSITIONS = "embeddings.word_embeddings.weight", "embeddings.position_embeddings.weight"
_FAIRSEQ = "encoder.sentence_encoder."

ROBERTA = ModelFamily(
    name="RoBERTa",
    task={"task": "masked_lm", "criterion": "masked_lm", "arch": "roberta"},
    criterion="MaskedLmLoss",
    # fairseq's masked-token head uses the layers' activation, Hugging Face's always the exact GELU.
    config={
        "hidden_act": "gelu",
        "layer_norm_eps": 1e-5,
        "position_embedding_type": "absolute",
        "pad_token_id": 1,
        "is_decoder": False,
        "add_cross_attention": False,
        "tie_word_embeddings": True,
    },
    sizes={
        "max_position_embeddings": ["max_positions", "tokens_per_sample"],
        _WIDTH: ["encoder_embed_dim"],
        "num_hidden_layers": ["encoder_layers"],
        "num_attention_heads": ["encoder_attention_heads"],
        "intermediate_size": ["encoder_ffn_embed_dim"],
    },
    rates={"hidden_dropout_prob": "dropout", "attention_probs_dropout_prob": "attention_dropout"},
    layers="num_hidden_layers",
    length="max_position_embeddings",
    prefix="roberta.",
    copies={f"{_HEAD}decoder.weight": _EMBEDDING, f"{_HEAD}decoder.bias": _BIAS},
    by_symbol={
        _EMBEDDING: [f"{_FAIRSEQ}embed_tokens.weight", "encoder.lm_head.weight"],
        _BIAS: ["encoder.lm_head.bias"],
    },
    positions=(_POSITIONS, f"{_FAIRSEQ}embed_positions.weight"),
    modules={
        "embeddings.LayerNorm": f"{_FAIRSEQ}layernorm_embedding",
        f"{_HEAD}dense": "encoder.lm_head.dense",
        f"{_HEAD}layer_norm": "encoder.lm_head.layer_norm",
    },
    layer=("encoder.layer.", f"{_FAIRSEQ}layers."),
    layer_modules={
        "attention.self.query": "self_attn.q_proj",
        "attention.self.key": "self_attn.k_proj",
        "attention.self.value": "self_attn.v_proj",
        "attention.output.dense": "self_attn.out_proj",
        "attention.output.LayerNorm": "self_attn_layer_norm",
        "intermediate.dense": "fc1",
        "output.dense": "fc2",
        "output.LayerNorm": "final_layer_norm",
    },
    version=f"{_FAIRSEQ}version",
    # Position and type numbers in old files, and a layer that masked-token training does not use.
    unused=(r"embeddings\.(position|token_type)_ids", r"pooler\..*"),
    unused_positions=2,
)
BERT = replace(
    ROBERTA,
    name="BERT",
    task={**ROBERTA.task, "arch": "bert"},
    config={**ROBERTA.config, "layer_norm_eps": BERTS_NORM_EPS, "pad_token_id": 0},
    prefix="bert.",
    aliases={
        "cls.predictions.transform.dense": f"{_HEAD}dense",
        "cls.predictions.transform.LayerNorm": f"{_HEAD}layer_norm",
        "cls.predictions.decoder": f"{_HEAD}decoder",
        "cls.predictions": "lm_head",
    },
    # The last pattern is the next-sentence head.
    unused=(*ROBERTA.unused, r"cls\.seq_relationship\..*"),
    unused_positions=0,
)


def import_roberta(source: Path, folder: Path) -> None:
    """Convert a RoBERTa, XLM-R or BERT of any size into an existing folder."""
    path, where = source / CONFIG_FILE, weight_file(source)
    content = _DEFAULTS | read_json(path)
    kind = content.get("model_type")
    if kind not in (*_CLASSES, "bert"):
        raise InputError(f"{path}: unknown model_type {kind!r}; expected roberta, xlm-roberta or bert")
    family = BERT if kind == "bert" else ROBERTA
    vocabulary = read_vocabulary(source)
    config = read_config(content, family, len(vocabulary), path)
    weights = read_weights(source, family, config)
    if not any(name.startswith(_HEAD) for name in weights):
        print(f"{where}: has no head for masked tokens; the checkpoint gets an untrained one", file=sys.stderr)
        weights |= _zero_head(config["vocab_size"], config[_WIDTH])
    types = (read_size(content, _NUM_TYPES, path), config[_WIDTH])
    second_text = _add_types_to_positions(weights, types, family, where)
    state = to_fairseq(weights, vocabulary.order(), family, config, where)
    if family is BERT:
        state[f"encoder.{ENTRY}"] = norm_eps_entry(BERTS_NORM_EPS)
        if second_text is not None:
            state[f"{_FAIRSEQ}{SECOND_TEXT}"] = second_text
    write_model(folder, state, family, config, where)
    write_subwords(folder, vocabulary)


def _zero_head(symbols: int, width: int) -> dict[str, Tensor]:
    sizes: Mapping[str, tuple[int, ...]] = {
        _BIAS: (symbols,),
        f"{_HEAD}dense.weight": (width, width),
        **{f"{_HEAD}{name}": (width,) for name in ("dense.bias", "layer_norm.weight", "layer_norm.bias")},
    }
    return {name: torch.zeros(size) for name, size in sizes.items()}


def _add_types_to_positions(
    weights: dict[str, Tensor], expected: tuple[int, int], family: ModelFamily, where: Path
) -> Tensor | None:
    """Add token type 0 to the positions. Return the difference of type 1, if there is one."""
    types, positions = weights.pop(_TYPES, torch.empty(0)), weights.get(_POSITIONS, torch.empty(0))
    if tuple(types.shape) != expected or positions.shape[1:] != expected[1:]:
        raise InputError(f"{where}: the rows of {_TYPES!r} and {_POSITIONS!r} do not have {expected[1]} values")
    positions = positions.clone()
    positions[family.unused_positions :] += types[0]
    weights[_POSITIONS] = positions
    return types[1] - types[0] if len(types) > 1 else None
