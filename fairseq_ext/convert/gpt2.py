"""Convert a Hugging Face GPT-2 to a checkpoint of fairseq's ``transformer_lm``, and back."""

from __future__ import annotations

from pathlib import Path

from fairseq_ext.convert.hugging_face import CONFIG_FILE, read_json, save_weights, weight_file, write_json
from fairseq_ext.convert.language_models import (
    Family,
    read_checkpoint,
    read_config,
    read_weights,
    to_fairseq,
    to_hugging_face,
    write_model,
)
from fairseq_ext.corpora.byte_level_bpe import (
    DICT_FILE,
    END_OF_TEXT,
    GPT2,
    MERGES_FILE,
    TOKENIZER_FILE,
    VOCAB_FILE,
    read_bpe,
    read_imported_bpe,
    write_bpe,
)
from fairseq_ext.corpora.text_files import write_lines

_OPTIONS = {
    "decoder_learned_pos": True,
    "decoder_normalize_before": True,
    "no_decoder_final_norm": False,
    "no_scale_embedding": True,
    "layernorm_embedding": False,
    "share_decoder_input_output_embed": True,
}
FAMILY = Family(
    name="GPT-2",
    task={"task": "language_modeling", "arch": "transformer_lm", **_OPTIONS},
    criterion="CrossEntropyCriterion",
    config={
        "model_type": "gpt2",
        "layer_norm_epsilon": 1e-5,
        "scale_attn_weights": True,
        "scale_attn_by_inverse_layer_idx": False,
        "add_cross_attention": False,
        "tie_word_embeddings": True,
    },
    options=_OPTIONS,
    sizes={
        "n_positions": ["max_target_positions", "tokens_per_sample"],
        "n_embd": ["decoder_embed_dim", "decoder_input_dim", "decoder_output_dim"],
        "n_layer": ["decoder_layers"],
        "n_head": ["decoder_attention_heads"],
        "n_inner": ["decoder_ffn_embed_dim"],
    },
    rates={"resid_pdrop": "dropout", "attn_pdrop": "attention_dropout"},
    # fairseq's "accurate" GELU is the tanh approximation.
    choices={
        "activation_function": (
            "activation_fn",
            {"gelu_new": "gelu_accurate", "gelu_pytorch_tanh": "gelu_accurate", "gelu": "gelu", "relu": "relu"},
        )
    },
    layers="n_layer",
    length="n_positions",
    prefix="transformer.",
    copies={"lm_head.weight": "wte.weight"},
    by_symbol={"wte.weight": ["decoder.embed_tokens.weight", "decoder.output_projection.weight"]},
    positions=("wpe.weight", "decoder.embed_positions.weight"),
    modules={"ln_f": "decoder.layer_norm"},
    layer=("h.", "decoder.layers."),
    layer_modules={
        "ln_1": ["self_attn_layer_norm"],
        "attn.c_attn": ["self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"],
        "attn.c_proj": ["self_attn.out_proj"],
        "ln_2": ["final_layer_norm"],
        "mlp.c_fc": ["fc1"],
        "mlp.c_proj": ["fc2"],
    },
    version="decoder.version",
    # The causal mask in old files.
    unused=(r"h\.\d+\.attn\.(masked_)?bias",),
    has_transposed_matrices=True,
)

# Subword files that an import may read.
TEXT_FILES = (VOCAB_FILE, MERGES_FILE, TOKENIZER_FILE)


def import_gpt2(source: Path, folder: Path) -> None:
    """Convert a GPT-2 of any size."""
    path, where = source / CONFIG_FILE, weight_file(source)
    vocabulary = read_bpe(source, GPT2)
    content = read_json(path)
    if content.get("n_inner") is None and isinstance(content.get("n_embd"), int):
        content["n_inner"] = 4 * content["n_embd"]
    config = read_config(content, FAMILY, len(vocabulary), path)
    state = to_fairseq(read_weights(source, FAMILY, config), vocabulary.order(), FAMILY, config, where)
    write_model(folder, state, FAMILY, config, where)
    write_bpe(folder, vocabulary)
    write_lines(folder / DICT_FILE, vocabulary.dictionary_lines())


def export_gpt2(checkpoint: Path, subwords: Path, folder: Path) -> None:
    """Convert a model back to Hugging Face, for instance after fine-tuning."""
    vocabulary = read_imported_bpe(subwords, GPT2)
    config, state = read_checkpoint(checkpoint, FAMILY, len(vocabulary))
    weights = to_hugging_face(state, vocabulary.order(), FAMILY)
    end_of_text = vocabulary.ids[END_OF_TEXT]
    content = {
        "architectures": ["GPT2LMHeadModel"],
        **FAMILY.config,
        **config,
        "embd_pdrop": config["resid_pdrop"],
        "bos_token_id": end_of_text,
        "eos_token_id": end_of_text,
    }
    write_json(folder / CONFIG_FILE, content)
    save_weights(folder, {FAMILY.prefix + name: value for name, value in weights.items()})
    write_bpe(folder, vocabulary)
