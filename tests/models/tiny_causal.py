"""Causal language models of Hugging Face with some thousand random weights, and a byte-level BPE of a page."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from tokenizers.implementations import ByteLevelBPETokenizer

from fairseq_ext.modules.pretrained import hide_broken_torchaudio

TEXT = [
    "The old tree in the garden shows its flowers, doesn't it?",
    "Accounts, credits and loans: the bank's rate was 12.5 % in 2024.",
    "Schließe die Tür! Žluťoučký kůň 猫が好き 🙂👍🏽",
] * 5
LENGTH = 64
_SIZES = {"hidden_size": 16, "num_hidden_layers": 3, "num_attention_heads": 4, "max_position_embeddings": LENGTH}
_LLAMA = {**_SIZES, "intermediate_size": 24, "num_key_value_heads": 2}
KINDS: dict[str, dict[str, Any]] = {
    "gpt2": {"n_embd": 16, "n_layer": 3, "n_head": 4, "n_positions": LENGTH},
    "llama": _LLAMA,
    "qwen2": {**_LLAMA, "tie_word_embeddings": True},
    # No attention; some layers without attention.
    "mamba": {"hidden_size": 16, "num_hidden_layers": 3, "state_size": 4},
    "qwen3_5_text": {**_LLAMA, "num_hidden_layers": 4, "head_dim": 4},
    "opt": {**_SIZES, "ffn_dim": 24, "word_embed_proj_dim": 16, "bos_token_id": 0, "pad_token_id": 1},
}


def make_tokenizer(folder: Path, text: Sequence[str] = TEXT, vocab_size: int = 320) -> int:
    """Write a ``tokenizer.json``, and return its number of tokens."""
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer = ByteLevelBPETokenizer()
    tokenizer.train_from_iterator(text, vocab_size=vocab_size, min_frequency=2, special_tokens=["<|endoftext|>"])
    tokenizer.save(str(folder / "tokenizer.json"))
    return int(tokenizer.get_vocab_size())


def make_causal(folder: Path, kind: str = "llama", more_tokens: int = 0, **changes: Any) -> Any:
    """Write a model and a tokenizer to a folder, and return the model; some have more tokens than their tokenizer."""
    hide_broken_torchaudio()
    from transformers import AutoConfig, AutoModelForCausalLM

    torch.manual_seed(1)
    vocab_size = make_tokenizer(folder) + more_tokens
    sizes = {"vocab_size": vocab_size, "eos_token_id": 0, **KINDS.get(kind, {}), **changes}
    config = AutoConfig.for_model(kind, **sizes)
    model = AutoModelForCausalLM.from_config(config).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.3)
    model.save_pretrained(folder)
    return model
