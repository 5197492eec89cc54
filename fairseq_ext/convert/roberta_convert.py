"""From a RoBERTa or XLM-R of Hugging Face's to a checkpoint of fairseq's ``roberta`` and back, or from a BERT."""

from __future__ import annotations

import copy
from argparse import Namespace
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fairseq import checkpoint_utils
from fairseq.models.roberta.model import base_architecture
from torch import Tensor

from fairseq_ext.convert.bert_weights import read_bert_weights
from fairseq_ext.convert.config_file import CONFIG_FILE, check_vocab_size
from fairseq_ext.convert.conversion import Conversion
from fairseq_ext.convert.fairseq_checkpoint import as_options, write_checkpoint
from fairseq_ext.convert.roberta_config import (
    ROBERTA_TYPE,
    UNUSED_POSITIONS,
    XLMR_TYPE,
    RobertaConfig,
    is_bert,
    read_config,
    write_roberta_config,
)
from fairseq_ext.convert.roberta_unigram import Unigram
from fairseq_ext.convert.roberta_vocabulary import (
    SOURCE_FILES,
    read_imported,
    read_vocabulary,
    write_subwords,
    write_tokenizer,
)
from fairseq_ext.convert.roberta_weights import (
    MODEL,
    fairseq_shapes,
    named_for_hugging_face,
    num_layers,
    read_weights,
    refuse_tasks,
    to_fairseq,
    to_roberta,
)
from fairseq_ext.convert.weight_files import check_weights, save_weights
from fairseq_ext.inputs.errors import InputError
from fairseq_ext.models.bert import NORM_EPS as BERTS_NORM_EPS
from fairseq_ext.modules.norm_eps import ENTRY, norm_eps_entry
from fairseq_ext.patches.checkpoints import load_checkpoints_safely

# fairseq's options that every RoBERTa has; a checkpoint with others is none.
_OPTIONS = {
    "activation_fn": "gelu",
    "encoder_learned_pos": True,
    "encoder_normalize_before": False,
    "layernorm_embedding": True,
    "no_scale_embedding": True,
    "no_token_positional_embeddings": False,
    "untie_weights_roberta": False,
}


def import_roberta(source: Path, folder: Path) -> None:
    """Convert a RoBERTa, XLM-R or BERT of any size.

    Args:
        source: folder with ``config.json``, the weights (safetensors or ``pytorch_model.bin``), and the subwords:
            ``vocab.json`` and ``merges.txt``, ``sentencepiece.bpe.model``, ``vocab.txt``, or ``tokenizer.json``.
        folder: where to write; it must exist.

    Raises:
        InputError: naming the file that is missing, damaged or of another kind of model.
    """
    config, vocabulary = read_config(source), read_vocabulary(source)
    check_vocab_size(config.vocab_size, len(vocabulary), source / CONFIG_FILE)
    as_bert = is_bert(source)
    weights = (read_bert_weights if as_bert else read_weights)(source, config)
    state = to_fairseq(weights, vocabulary.order())
    if as_bert:
        state[f"encoder.{ENTRY}"] = norm_eps_entry(BERTS_NORM_EPS)
    write_subwords(folder, vocabulary)
    write_checkpoint(folder, state, _arguments(config, "bert" if as_bert else "roberta"), "MaskedLmLoss")


def export_roberta(checkpoint: Path, subwords: Path, folder: Path) -> None:
    """Convert back, or a model that was trained from scratch, by fairseq's ``masked_lm`` or ours.

    Args:
        checkpoint: fairseq's, of a plain ``roberta``.
        subwords: folder with its vocabulary: that of the import, or ``sentencepiece.model`` and its ``dict.txt``.
        folder: where to write; it must exist.

    Raises:
        InputError: if the checkpoint is no plain RoBERTa, or not of this vocabulary.
    """
    vocabulary = read_imported(subwords)
    load_checkpoints_safely()
    loaded = checkpoint_utils.load_checkpoint_to_cpu(str(checkpoint))
    config = _config_of(loaded["cfg"]["model"], loaded["model"], len(vocabulary), str(checkpoint))
    weights = to_roberta({name: value.float() for name, value in loaded["model"].items()}, vocabulary.order())
    write_roberta_config(folder, config, XLMR_TYPE if isinstance(vocabulary, Unigram) else ROBERTA_TYPE)
    save_weights(folder, named_for_hugging_face(weights))
    write_tokenizer(folder, vocabulary, config.max_positions)


CONVERSION = Conversion(SOURCE_FILES, import_roberta, export_roberta)


def _arguments(config: RobertaConfig, arch: str) -> list[str]:
    """Task, architecture and options of fairseq's that make the model."""
    values = {
        "tokens-per-sample": config.max_positions,
        "max-positions": config.max_positions,
        "dropout": config.hidden_dropout_prob,
        "attention-dropout": config.attention_probs_dropout_prob,
        "encoder-layers": config.num_hidden_layers,
        "encoder-attention-heads": config.num_attention_heads,
        "encoder-embed-dim": config.hidden_size,
        "encoder-ffn-embed-dim": config.intermediate_size,
    }
    return ["--task", "masked_lm", "--criterion", "masked_lm", "--arch", arch, *as_options(values)]


def _config_of(model: Any, state: Mapping[str, Tensor], num_symbols: int, where: str) -> RobertaConfig:
    """The options and sizes of a checkpoint, after a check that RoBERTa has the same."""
    refuse_tasks(state, where)
    options = copy.copy(model) if isinstance(model, Namespace) else Namespace(**model)
    # Options that an older fairseq did not have yet.
    base_architecture(options)
    for name, value in _OPTIONS.items():
        if getattr(options, name) != value:
            raise InputError(f"{where}: its option {name} is {getattr(options, name)}, that of a {MODEL} {value}")
    # fairseq's own rule.
    positions = vars(options).get("max_positions") or vars(options).get("tokens_per_sample", 0)
    config = RobertaConfig(
        vocab_size=num_symbols,
        max_position_embeddings=positions + UNUSED_POSITIONS,
        hidden_size=options.encoder_embed_dim,
        num_hidden_layers=num_layers(state),
        num_attention_heads=options.encoder_attention_heads,
        intermediate_size=options.encoder_ffn_embed_dim,
        hidden_dropout_prob=options.dropout,
        attention_probs_dropout_prob=options.attention_dropout,
    )
    check_weights(state, fairseq_shapes(config), where, MODEL)
    return config
