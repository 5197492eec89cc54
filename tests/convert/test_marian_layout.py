"""Options of Marian models: what they become in fairseq, and models of other kinds, which are refused by name."""

from pathlib import Path
from typing import Any

import pytest

from fairseq_ext.base.errors import InputError
from fairseq_ext.convert.marian_layout import read_layout
from tests.convert.tiny_marian import OPTIONS as USUAL

OPTIONS = {**USUAL, "transformer-decoder-autoreg": "rnn"}
PATH = Path("model.npz")


def layout(**changes: Any) -> dict[str, Any]:
    given = {name.replace("_", "-"): value for name, value in changes.items()}
    return dict(read_layout({**OPTIONS, **given}, PATH).options)


def test_missing_options_have_the_defaults_of_marian() -> None:
    needed = ("dim-emb", "transformer-heads", "transformer-dim-ffn", "enc-depth", "dec-depth")
    found = read_layout({name: OPTIONS[name] for name in needed}, PATH)
    assert found.options["autoregressive_layer"] == "attention"
    assert found.options["activation_fn"] == "swish"
    assert not found.is_pre_norm
    assert not found.is_output_tied
    assert found.options["layer_norm_epsilon"] == 1e-6


def test_files_that_only_training_reads_do_not_matter() -> None:
    assert layout(input_types=["sequence", "sequence", "alignment", "weight"]) == layout(input_types=[]) == layout()


def test_sizes_norms_and_positions() -> None:
    found = layout(transformer_decoder_dim_ffn=20, dec_depth=3)
    assert (found["encoder_ffn_embed_dim"], found["decoder_ffn_embed_dim"]) == (24, 20)
    assert (found["encoder_layers"], found["decoder_layers"]) == (2, 3)
    assert not found["encoder_normalize_before"]
    pre_norm = {"transformer_preprocess": "n", "transformer_postprocess": "da", "transformer_postprocess_top": "n"}
    found = layout(**pre_norm, transformer_postprocess_emb="nd")
    assert found["decoder_normalize_before"]
    assert found["layernorm_embedding"]
    assert found["encoder_learned_pos"]
    assert layout(transformer_disable_position_embeddings=True)["no_scale_embedding"]


@pytest.mark.parametrize(
    ("changes", "match"),
    [
        ({"type": "s2s"}, "type is 's2s'"),
        ({"transformer_decoder_autoreg": "average-attention"}, "transformer-decoder-autoreg 'average-attention'"),
        ({"dec_cell": "gru"}, "dec-cell 'gru'"),
        ({"transformer_ffn_depth": 3}, "transformer-ffn-depth is 3"),
        ({"transformer_decoder_ffn_depth": 1}, "transformer-decoder-ffn-depth is 1"),
        ({"transformer_rnn_projection": True}, "transformer-rnn-projection is True"),
        ({"transformer_train_position_embeddings": True}, "transformer-train-position-embeddings is True"),
        ({"transformer_attention_mask": "alibi"}, "transformer-attention-mask is 'alibi'"),
        ({"transformer_ffn_activation": "tanh"}, "transformer-ffn-activation: 'tanh'"),
        ({"transformer_postprocess": "dn"}, "transformer-postprocess 'dn'"),
        ({"transformer_preprocess": "n"}, "transformer-preprocess 'n'"),
        ({"transformer_postprocess_top": "n"}, "transformer-postprocess-top 'n'"),
        ({"input_types": ["class", "sequence"]}, "input-types is"),
        ({"input_types": ["sequence"] * 3}, "input-types is .* only models with one source text"),
        ({"lemma_dim_emb": 8}, "lemma-dim-emb is 8"),
        ({"right_left": True}, "right-left is True"),
        ({"transformer_tied_layers": [1, 2]}, r"transformer-tied-layers is \[1, 2\]; expected 1 numbers"),
        ({"dim_emb": "x"}, "dim-emb: expected a whole number"),
        ({"transformer_heads": 3}, "dim-emb is 16, which must be even and a multiple of transformer-heads, 3"),
    ],
)
def test_other_models_are_refused_by_name(changes: dict[str, Any], match: str) -> None:
    with pytest.raises(InputError, match=f"model.npz: .*{match}") as caught:
        layout(**changes)
    assert "\n" not in str(caught.value)
