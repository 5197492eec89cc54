"""From a GPT-2 directory of Hugging Face's to a checkpoint of fairseq's ``transformer_lm``, and back."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fairseq import checkpoint_utils
from torch import Tensor

from fairseq_ext.convert.config_file import CONFIG_FILE, check_vocab_size
from fairseq_ext.convert.conversion import Conversion
from fairseq_ext.convert.fairseq_checkpoint import as_options, write_checkpoint
from fairseq_ext.convert.gpt2_files import ACTIVATIONS, Gpt2Config, read_config, read_weights, write_model
from fairseq_ext.convert.gpt2_weights import fairseq_shapes, to_fairseq, to_gpt2
from fairseq_ext.convert.weight_files import check_weights
from fairseq_ext.corpora.text_files import write_lines
from fairseq_ext.inputs.errors import InputError
from fairseq_ext.patches.checkpoints import load_checkpoints_safely
from fairseq_ext.text.byte_level_bpe import (
    DICT_FILE,
    END_OF_TEXT,
    GPT2,
    MERGES_FILE,
    TOKENIZER_FILE,
    VOCAB_FILE,
    ByteLevelBpe,
    read_bpe,
    read_imported_bpe,
    write_bpe,
)

# fairseq's options that every GPT-2 has; a checkpoint with others is none.
_OPTIONS = {
    "decoder_learned_pos": True,
    "decoder_normalize_before": True,
    "no_decoder_final_norm": False,
    "no_scale_embedding": True,
    "layernorm_embedding": False,
    "share_decoder_input_output_embed": True,
}


def import_gpt2(source: Path, folder: Path) -> None:
    """Convert a GPT-2 of any size.

    Args:
        source: folder with ``config.json``, the weights (safetensors or ``pytorch_model.bin``), and ``vocab.json`` and
            ``merges.txt`` or ``tokenizer.json``.
        folder: where to write; it must exist.

    Raises:
        InputError: naming the file that is missing, damaged or of another kind of model.
    """
    config, vocabulary = read_config(source), read_bpe(source, GPT2)
    check_vocab_size(config.vocab_size, len(vocabulary), source / CONFIG_FILE)
    state = to_fairseq(read_weights(source, config), vocabulary.order())
    write_bpe(folder, vocabulary)
    write_lines(folder / DICT_FILE, vocabulary.dictionary_lines())
    write_checkpoint(folder, state, _arguments(config), "CrossEntropyCriterion")


def export_gpt2(checkpoint: Path, subwords: Path, folder: Path) -> None:
    """Convert back, for instance after fine-tuning.

    Args:
        checkpoint: fairseq's, of an imported model or one that was trained from it.
        subwords: folder with the vocabulary of the import.
        folder: where to write; it must exist.

    Raises:
        InputError: if the checkpoint is no plain GPT-2, or not of this vocabulary.
    """
    vocabulary = read_imported_bpe(subwords, GPT2)
    load_checkpoints_safely()
    loaded = checkpoint_utils.load_checkpoint_to_cpu(str(checkpoint))
    config = _config_of(loaded["cfg"]["model"], loaded["model"], vocabulary, str(checkpoint))
    weights = to_gpt2({name: value.float() for name, value in loaded["model"].items()}, vocabulary.order())
    write_model(folder, config, weights, vocabulary.ids[END_OF_TEXT])
    write_bpe(folder, vocabulary)


CONVERSION = Conversion((VOCAB_FILE, MERGES_FILE, TOKENIZER_FILE), import_gpt2, export_gpt2)


def _arguments(config: Gpt2Config) -> list[str]:
    """Task, architecture and options of fairseq's that make the model."""
    values = {
        "tokens-per-sample": config.n_positions,
        "max-target-positions": config.n_positions,
        "activation-fn": ACTIVATIONS[config.activation_function],
        "dropout": config.resid_pdrop,
        "attention-dropout": config.attn_pdrop,
        "decoder-layers": config.n_layer,
        "decoder-attention-heads": config.n_head,
        "decoder-embed-dim": config.n_embd,
        "decoder-input-dim": config.n_embd,
        "decoder-output-dim": config.n_embd,
        "decoder-ffn-embed-dim": config.n_inner,
    }
    flags = [f"--{name.replace('_', '-')}" for name, value in _OPTIONS.items() if value]
    return ["--task", "language_modeling", "--arch", "transformer_lm", *flags, *as_options(values)]


def _config_of(
    model: Mapping[str, Any], state: Mapping[str, Tensor], vocabulary: ByteLevelBpe, where: str
) -> Gpt2Config:
    """The options and sizes of a checkpoint, after a check that GPT-2 has the same."""
    for name, value in _OPTIONS.items():
        if model.get(name) != value:
            raise InputError(f"{where}: its option {name} is {model.get(name)}, that of a GPT-2 {value}")
    names = {theirs: ours for ours, theirs in reversed(ACTIVATIONS.items())}
    if model["activation_fn"] not in names:
        raise InputError(f"{where}: activation_fn is {model['activation_fn']!r}, GPT-2 knows {', '.join(names)}")
    config = Gpt2Config(
        vocab_size=len(vocabulary),
        n_positions=model["max_target_positions"] or model["tokens_per_sample"],
        n_embd=model["decoder_embed_dim"],
        n_layer=sum(name.endswith(".fc1.bias") for name in state),
        n_head=model["decoder_attention_heads"],
        n_inner=model["decoder_ffn_embed_dim"],
        activation_function=names[model["activation_fn"]],
        resid_pdrop=model["dropout"],
        attn_pdrop=model["attention_dropout"],
    )
    check_weights(state, fairseq_shapes(config.shape), where, "GPT-2")
    return config
