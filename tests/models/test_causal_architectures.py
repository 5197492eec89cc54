"""Causal language models of some sixty architectures as bases: right, or refused."""

from pathlib import Path
from typing import Any

import pytest
import torch

from fairseq_ext.base.errors import InputError
from tests.models.test_causal_lm import HIER, are_close, build, dictionary_of, inputs_of, rows_of
from tests.models.tiny_causal import make_causal

pytestmark = pytest.mark.slow

LLAMA = {
    **{"hidden_size": 16, "num_hidden_layers": 3, "num_attention_heads": 4, "num_key_value_heads": 2},
    **{"intermediate_size": 24, "max_position_embeddings": 64, "pad_token_id": 0},
}
HEADS = {**LLAMA, "head_dim": 4}
EXPERTS = {**HEADS, "moe_intermediate_size": 8, "num_experts": 4, "num_experts_per_tok": 2, "num_local_experts": 4}
GPT = {"n_embd": 16, "n_layer": 3, "n_head": 4, "n_positions": 64}
ROTARY = {**GPT, "rotary_dim": 4}
STATES = {"hidden_size": 16, "num_hidden_layers": 3, "state_size": 4}
LATENT = {"kv_lora_rank": 8, "q_lora_rank": 8, "qk_rope_head_dim": 4, "qk_nope_head_dim": 4, "v_head_dim": 4}
LOCAL = {"attention_types": [[["global", "local"], 1]], "num_layers": 2, "num_heads": 4}

BASES: dict[str, dict[str, Any]] = {
    **dict.fromkeys(
        ("gpt_neox", "phi3", "mistral", "stablelm", "falcon", "olmo", "olmo2", "olmo3", "starcoder2"), LLAMA
    ),
    **dict.fromkeys(("smollm3", "biogpt", "nemotron", "persimmon", "apertus", "arcee", "bitnet", "diffllama"), LLAMA),
    **dict.fromkeys(("lfm2", "internlm3"), LLAMA),
    **dict.fromkeys(
        ("gemma", "gemma3_text", "qwen3", "glm", "glm4", "exaone4", "ernie4_5", "helium", "seed_oss"), HEADS
    ),
    **dict.fromkeys(("ministral", "hunyuan_v1_dense"), HEADS),
    **dict.fromkeys(("mixtral", "qwen2_moe", "qwen3_moe", "gpt_oss", "olmoe", "granitemoe", "phimoe"), EXPERTS),
    **dict.fromkeys(("gpt2", "gpt_bigcode"), GPT),
    **dict.fromkeys(("mamba", "falcon_mamba"), STATES),
    "mamba2": {**STATES, "num_heads": 4, "head_dim": 8, "n_groups": 1},
    "bloom": {"hidden_size": 16, "n_layer": 3, "n_head": 4},
    "mpt": {"d_model": 16, "n_layers": 3, "n_heads": 4, "max_seq_len": 64},
    "xglm": {"d_model": 16, "num_layers": 3, "attention_heads": 4, "ffn_dim": 24, "max_position_embeddings": 64},
    "gpt_neo": {"hidden_size": 16, "max_position_embeddings": 64, **LOCAL},
    "jamba": {**EXPERTS, "num_hidden_layers": 8, "mamba_d_state": 4, "mamba_dt_rank": 4},
    **dict.fromkeys(("qwen3_next", "qwen3_5_text"), {**EXPERTS, "num_hidden_layers": 4}),
    "deepseek_v3": {
        **EXPERTS,
        **LATENT,
        "num_key_value_heads": 4,
        "n_routed_experts": 4,
        "n_group": 1,
        "topk_group": 1,
    },
    "gemma4_text": {**HEADS, "vocab_size_per_layer_input": 320},
}
# Their scores have a bias, a scale or a limit.
FOR_TREES: dict[str, dict[str, Any]] = {
    **dict.fromkeys(("gptj", "codegen"), ROTARY),
    **dict.fromkeys(("phi", "cohere", "cohere2"), LLAMA),
    **dict.fromkeys(("gemma2", "nanochat"), HEADS),
    "granite": {**LLAMA, "logits_scaling": 4.0},
    "ctrl": {**GPT, "dff": 24},
}
REFUSED: dict[str, dict[str, Any]] = {
    **dict.fromkeys(("bert", "roberta", "electra"), {**LLAMA, "is_decoder": True}),
    "modernbert-decoder": LLAMA,
    "openai-gpt": GPT,
    "rwkv": {"hidden_size": 16, "num_hidden_layers": 3, "attention_hidden_size": 16},
    "recurrent_gemma": {**LLAMA, "lru_width": 16},
    "llama4_text": {**EXPERTS, "intermediate_size_mlp": 24},
    "xlnet": {"d_model": 16, "n_layer": 3, "n_head": 4, "d_inner": 24},
    "xlm": {"emb_dim": 16, "n_layers": 3, "n_heads": 4},
    "bart": {"d_model": 16, "encoder_layers": 3, "decoder_layers": 3, "max_position_embeddings": 64},
}


@pytest.mark.parametrize("kind", [*BASES, *FOR_TREES])
def test_adapted_scores_are_those_of_the_model_also_token_by_token(tmp_path: Path, kind: str) -> None:
    theirs = make_causal(tmp_path / "hf", kind, **{**BASES, **FOR_TREES}[kind])
    dictionary, order = dictionary_of(tmp_path / "hf", theirs.config, tmp_path)
    rows, nodes = rows_of(dictionary), inputs_of("hier")
    model = build(tmp_path / "hf", dictionary, "transformer_lm_hier_adapter", **HIER)
    with torch.no_grad():
        expected = theirs(torch.tensor(order)[rows]).logits[..., order]
        assert are_close(model(rows, **nodes)[0], expected)
        state: dict = {}
        steps = [model(rows[:, :end], incremental_state=state, **nodes)[0] for end in (3, 4, 5)]
        assert are_close(torch.cat(steps, 1), expected[:, :5])
    model.train()(rows, **nodes)[0].sum().backward()
    assert all(parameter.grad is not None for parameter in model.parameters() if parameter.requires_grad)
    if kind in FOR_TREES:
        with pytest.raises(InputError, match="for topics, give another base"):
            build(tmp_path / "hf", dictionary, "transformer_lm_topic")
    else:
        topics = build(tmp_path / "hf", dictionary, "transformer_lm_topic", num_topics=2, mixture="logits")
        assert are_close(topics(rows)[0], expected)


@pytest.mark.parametrize("kind", REFUSED)
def test_others_are_refused_in_one_line(tmp_path: Path, kind: str) -> None:
    theirs = make_causal(tmp_path / "hf", kind, **REFUSED[kind])
    dictionary, _ = dictionary_of(tmp_path / "hf", theirs.config, tmp_path)
    with pytest.raises(InputError, match="give another") as caught:
        build(tmp_path / "hf", dictionary)
    assert "\n" not in str(caught.value)
