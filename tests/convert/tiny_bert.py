"""A BERT of some thousand random weights, with pieces of a page, as Hugging Face keeps it."""

from pathlib import Path
from typing import Any

import torch

from fairseq_ext.modules.pretrained import hide_broken_torchaudio
from tests.convert.tiny_subwords import TEXT, save_noisy

SPECIAL = ["[PAD]", "[unused0]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]


def make_vocabulary(folder: Path) -> int:
    """Write ``vocab.txt``, and return the number of pieces: letters, some endings, the words of half the page."""
    folder.mkdir(parents=True, exist_ok=True)
    letters = sorted({letter for letter in "".join(TEXT[::2]).lower() if letter.isalnum()} | {*".,!'"})
    words = sorted({word for line in TEXT[::2] for word in line.lower().split() if word.isalpha() and len(word) > 1})
    pieces = [*SPECIAL, *letters, *(f"##{letter}" for letter in letters if letter.isalnum()), "##ing", "##ed", *words]
    (folder / "vocab.txt").write_text("".join(f"{piece}\n" for piece in pieces), encoding="utf-8")
    return len(pieces)


def make_bert(folder: Path, *, with_head: bool = True) -> Any:
    """Write model and pieces to a folder, and return the model."""
    hide_broken_torchaudio()
    from transformers import BertConfig, BertForMaskedLM, BertModel

    config = BertConfig(
        vocab_size=make_vocabulary(folder), max_position_embeddings=24, hidden_size=16, num_hidden_layers=2,
        num_attention_heads=4, intermediate_size=40,
    )  # fmt: skip
    torch.manual_seed(1)
    # Embeddings stay small, so that the epsilon of their norm matters.
    return save_noisy(folder, (BertForMaskedLM if with_head else BertModel)(config), small="_embeddings")
