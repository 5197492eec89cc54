"""``config.json`` of a RoBERTa, XLM-R or BERT, and whether fairseq's ``roberta`` can be one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fairseq_ext.convert.config_file import (
    CONFIG_FILE,
    check_fixed,
    read_json,
    read_rate,
    read_size,
    write_config,
)
from fairseq_ext.inputs.errors import InputError

# The first two differ in their subwords only; of BERT see convert/bert_weights.py.
ROBERTA_TYPE, XLMR_TYPE = "roberta", "xlm-roberta"
BERT_TYPE = "bert"
_CLASSES = {ROBERTA_TYPE: "RobertaForMaskedLM", XLMR_TYPE: "XLMRobertaForMaskedLM"}
# Positions are counted from the number after <pad>'s, so the table has that many rows more than a text has tokens.
UNUSED_POSITIONS = 2
# What fairseq's encoder cannot be told. Its head for masked tokens takes the activation of the layers, Hugging Face's
# always the exact GELU.
_FIXED = {
    "hidden_act": "gelu",
    "layer_norm_eps": 1e-5,
    "position_embedding_type": "absolute",
    "pad_token_id": 1,
    "is_decoder": False,
    "add_cross_attention": False,
    "tie_word_embeddings": True,
}
_BERTS_OWN = {"layer_norm_eps": 1e-12, "pad_token_id": 0}
# Hugging Face's own where the file is silent, and not the one that is needed.
_OTHER_DEFAULTS = {"layer_norm_eps": 1e-12}


@dataclass(frozen=True)
class RobertaConfig:
    """What ``config.json`` says, under Hugging Face's names."""

    vocab_size: int
    max_position_embeddings: int
    hidden_size: int
    num_hidden_layers: int
    num_attention_heads: int
    intermediate_size: int
    type_vocab_size: int = 1
    hidden_dropout_prob: float = 0.1
    attention_probs_dropout_prob: float = 0.1

    @property
    def max_positions(self) -> int:
        """The tokens of the longest text, as fairseq counts them."""
        return self.max_position_embeddings - UNUSED_POSITIONS


def read_config(folder: Path) -> RobertaConfig:
    """Read ``config.json``.

    Raises:
        InputError: naming the key that is missing, ill-formed or asks for what fairseq's encoder does not do.
    """
    path = folder / CONFIG_FILE
    content = _OTHER_DEFAULTS | read_json(path)
    model_type = content.get("model_type")
    if model_type not in (*_CLASSES, BERT_TYPE):
        raise InputError(f"{path}: model_type is {model_type!r}, which is none of {', '.join((*_CLASSES, BERT_TYPE))}")
    is_bert = model_type == BERT_TYPE
    check_fixed(content, _FIXED | (_BERTS_OWN if is_bert else {}), path)
    config = RobertaConfig(
        vocab_size=read_size(content, "vocab_size", path),
        # BERT's first position is the table's first row.
        max_position_embeddings=read_size(content, "max_position_embeddings", path) + UNUSED_POSITIONS * is_bert,
        hidden_size=read_size(content, "hidden_size", path),
        num_hidden_layers=read_size(content, "num_hidden_layers", path),
        num_attention_heads=read_size(content, "num_attention_heads", path),
        intermediate_size=read_size(content, "intermediate_size", path),
        type_vocab_size=read_size(content, "type_vocab_size", path),
        hidden_dropout_prob=read_rate(content, "hidden_dropout_prob", path),
        attention_probs_dropout_prob=read_rate(content, "attention_probs_dropout_prob", path),
    )
    _check_sizes(config, path)
    return config


def is_bert(folder: Path) -> bool:
    """Whether ``config.json`` is a BERT's.

    Raises:
        InputError: if it is missing or damaged.
    """
    return read_json(folder / CONFIG_FILE).get("model_type") == BERT_TYPE


def write_roberta_config(folder: Path, config: RobertaConfig, model_type: str) -> None:
    """Write ``config.json`` of a model for masked tokens.

    Args:
        folder: where to write.
        config: the model's.
        model_type: by which Hugging Face tells its subwords.
    """
    content: Mapping[str, Any] = {
        "architectures": [_CLASSES[model_type]],
        "model_type": model_type,
        **_FIXED,
        **vars(config),
        "bos_token_id": 0,
        "eos_token_id": 2,
    }
    write_config(folder, content)


def _check_sizes(config: RobertaConfig, path: Path) -> None:
    if config.hidden_size % config.num_attention_heads:
        raise InputError(
            f"{path}: hidden_size {config.hidden_size} is no multiple of num_attention_heads "
            f"{config.num_attention_heads}"
        )
    if config.max_positions < 1:
        raise InputError(
            f"{path}: max_position_embeddings is {config.max_position_embeddings}, but {UNUSED_POSITIONS} of them are "
            "never used"
        )
