"""From a GPT-2 directory of Hugging Face's to a checkpoint of fairseq's ``transformer_lm``, and back."""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from fairseq import checkpoint_utils, options
from fairseq.dataclass.utils import convert_namespace_to_omegaconf
from omegaconf import OmegaConf
from torch import Tensor

from fairseq_ext.corpora.text_files import write_lines
from fairseq_ext.engine.steps import Step, run_steps
from fairseq_ext.errors import InputError
from fairseq_ext.gpt2.hugging_face import (
    ACTIVATIONS,
    CONFIG_FILE,
    Gpt2Config,
    input_files,
    read_config,
    read_weights,
    write_model,
)
from fairseq_ext.gpt2.vocabulary import (
    DICT_FILE,
    END_OF_TEXT,
    MERGES_FILE,
    TOKENIZER_FILE,
    VOCAB_FILE,
    Vocabulary,
    read_imported,
    read_vocabulary,
    write_vocabulary,
)
from fairseq_ext.gpt2.weights import check_weights, fairseq_shapes, to_fairseq, to_gpt2
from fairseq_ext.training.checkpoints import load_checkpoints_safely

MODEL_FILE = "model.pt"
# fairseq's options that every GPT-2 has; a checkpoint with others is none.
_OPTIONS = {
    "decoder_learned_pos": True,
    "decoder_normalize_before": True,
    "no_decoder_final_norm": False,
    "no_scale_embedding": True,
    "layernorm_embedding": False,
    "share_decoder_input_output_embed": True,
}


def import_step(source: Path, output: Path) -> Step:
    """The step that makes ``model.pt``, ``dict.txt``, ``vocab.json`` and ``merges.txt`` of a Hugging Face directory.

    Raises:
        InputError: if the directory has no weights.
    """
    texts = [source / name for name in (CONFIG_FILE, VOCAB_FILE, MERGES_FILE, TOKENIZER_FILE)]
    return Step(
        output,
        inputs=[*(path for path in texts if path.is_file()), *input_files(source)],
        options={"version": 1},
        build=lambda folder: import_gpt2(source, folder),
    )


def export_step(checkpoint: Path, subwords: Path, output: Path) -> Step:
    """The step that makes a Hugging Face directory of a checkpoint and its vocabulary."""
    return Step(
        output,
        inputs=[checkpoint, *(subwords / name for name in (DICT_FILE, VOCAB_FILE, MERGES_FILE))],
        options={"version": 1},
        build=lambda folder: export_gpt2(checkpoint, subwords, folder),
    )


def import_gpt2(source: Path, folder: Path) -> None:
    """Convert a GPT-2 of any size.

    Args:
        source: folder with ``config.json``, the weights (safetensors or ``pytorch_model.bin``), and ``vocab.json`` and
            ``merges.txt`` or ``tokenizer.json``.
        folder: where to write; it must exist.

    Raises:
        InputError: naming the file that is missing, damaged or of another kind of model.
    """
    config, vocabulary = read_config(source), read_vocabulary(source)
    if config.vocab_size != len(vocabulary):
        raise InputError(
            f"{source / CONFIG_FILE}: vocab_size is {config.vocab_size}, but the tokeniser has {len(vocabulary)} "
            "symbols; the two do not belong together"
        )
    state = to_fairseq(read_weights(source, config), vocabulary.order())
    write_vocabulary(folder, vocabulary)
    write_lines(folder / DICT_FILE, vocabulary.dictionary_lines())
    torch.save(_checkpoint(state, config), folder / MODEL_FILE)


def export_gpt2(checkpoint: Path, subwords: Path, folder: Path) -> None:
    """Convert back, for instance after fine-tuning.

    Args:
        checkpoint: fairseq's, of an imported model or one that was trained from it.
        subwords: folder with the vocabulary of the import.
        folder: where to write; it must exist.

    Raises:
        InputError: if the checkpoint is no plain GPT-2, or not of this vocabulary.
    """
    vocabulary = read_imported(subwords)
    load_checkpoints_safely()
    loaded = checkpoint_utils.load_checkpoint_to_cpu(str(checkpoint))
    config = _config_of(loaded["cfg"]["model"], loaded["model"], vocabulary, str(checkpoint))
    weights = to_gpt2({name: value.float() for name, value in loaded["model"].items()}, vocabulary.order())
    write_model(folder, config, weights, vocabulary.ids[END_OF_TEXT])
    write_vocabulary(folder, vocabulary)


def main(arguments: Sequence[str] | None = None) -> None:
    """Command line of ``scripts/import_gpt2.py``."""
    parser = argparse.ArgumentParser(
        description="Make a fairseq checkpoint and dictionary of a GPT-2 directory of Hugging Face's, or the reverse."
    )
    parser.add_argument("source", type=Path, help="Hugging Face directory (with --export: fairseq checkpoint)")
    parser.add_argument("output", type=Path, help="directory to make")
    parser.add_argument("--export", action="store_true", help="from fairseq to Hugging Face")
    parser.add_argument(
        "--subwords",
        type=Path,
        metavar="DIR",
        help="with --export: folder with dict.txt, vocab.json and merges.txt (default: that of the checkpoint)",
    )
    given = parser.parse_args(arguments)
    if given.subwords and not given.export:
        raise InputError("--subwords: is for --export only; an import takes the vocabulary from its source")
    if given.export:
        step = export_step(given.source, given.subwords or given.source.parent, given.output)
    else:
        step = import_step(given.source, given.output)
    run_steps([step])


def _checkpoint(state: Mapping[str, Tensor], config: Gpt2Config) -> dict[str, Any]:
    """All that fairseq looks for in a checkpoint; nothing has been trained yet."""
    return {
        "args": None,
        "cfg": _fairseq_config(config),
        "model": dict(state),
        "criterion": {},
        "optimizer_history": [
            {
                "criterion_name": "CrossEntropyCriterion",
                "optimizer_name": "FairseqAdam",
                "lr_scheduler_state": {},
                "num_updates": 0,
            }
        ],
        "task_state": {},
        "extra_state": {"train_iterator": {"epoch": 1, "iterations_in_epoch": 0}},
        "last_optimizer_state": None,
    }


def _fairseq_config(config: Gpt2Config) -> dict[str, Any]:
    """The configuration that fairseq-train would have stored, as plain containers."""
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
    # The directory of the data is the user's own, whatever stands here.
    line = [".", "--task", "language_modeling", "--arch", "transformer_lm", "--optimizer", "adam", *flags]
    line += [text for name, value in values.items() for text in (f"--{name}", str(value))]
    with warnings.catch_warnings():
        # What fairseq's dependencies say of each other tells a user nothing.
        warnings.simplefilter("ignore")
        parsed = convert_namespace_to_omegaconf(options.parse_args_and_arch(options.get_training_parser(), line))
    plain: Any = OmegaConf.to_container(parsed, resolve=True, enum_to_str=True)
    return plain


def _config_of(model: Mapping[str, Any], state: Mapping[str, Tensor], vocabulary: Vocabulary, where: str) -> Gpt2Config:
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
    check_weights(state, fairseq_shapes(config.shape), where)
    return config
