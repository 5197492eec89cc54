"""A BERT of some thousand random weights, with pieces of a page, as Hugging Face keeps it."""

from pathlib import Path
from typing import Any

import torch

from fairseq_ext.convert.pretrained import hide_broken_torchaudio
from tests.convert.tiny_gpt2 import TEXT

SPECIAL = ["[PAD]", "[unused0]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]


def make_vocabulary(folder: Path) -> int:
    """Write ``vocab.txt``, and return the number of pieces: letters, some endings, the words of half the page."""
    folder.mkdir(parents=True, exist_ok=True)
    letters = sorted({letter for letter in "".join(TEXT[::2]).lower() if letter.isalnum()} | {*".,!'"})
    words = sorted({word for line in TEXT[::2] for word in line.lower().split() if word.isalpha() and len(word) > 1})
    pieces = [*SPECIAL, *letters, *(f"##{letter}" for letter in letters if letter.isalnum()), "##ing", "##ed", *words]
    (folder / "vocab.txt").write_text("".join(f"{piece}\n" for piece in pieces), encoding="utf-8")
    return len(pieces)


def make_bert(folder: Path, *, with_head: bool = True, noise: float = 0.3, **changes: Any) -> Any:
    """Write model and pieces to a folder, and return the model."""
    hide_broken_torchaudio()
    from transformers import BertConfig, BertForMaskedLM, BertModel

    sizes = {
        "vocab_size": make_vocabulary(folder), "max_position_embeddings": 24, "hidden_size": 16,
        "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 40,
    }  # fmt: skip
    torch.manual_seed(1)
    model = (BertForMaskedLM if with_head else BertModel)(BertConfig(**{**sizes, **changes})).eval()
    # Biases and norms start at 0 and 1: as they are, a wrong one would not be seen. Embeddings stay small, so that the
    # epsilon of their norm matters.
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.add_(torch.randn_like(parameter) * (0.01 if "_embeddings" in name else noise))
    model.save_pretrained(folder)
    return model
