"""A RoBERTa and an XLM-R of some thousand random weights, with subwords of a page, as Hugging Face keeps them."""

from pathlib import Path
from typing import Any

import torch

from fairseq_ext.modules.pretrained import hide_broken_torchaudio
from tests.convert import tiny_subwords
from tests.convert.tiny_subwords import save_noisy
from tests.text.tiny_pieces import write_pieces

SPECIAL = ["<s>", "<pad>", "</s>", "<unk>"]


def make_bpe(folder: Path, *, mask_last: bool = True) -> int:
    """Write a vocabulary, and return the number of symbols.

    ``<mask>`` is the last one, as in Meta's RoBERTa, or behind the other special ones, as in those of Hugging Face's
    own tutorial.
    """
    special = SPECIAL if mask_last else [*SPECIAL, "<mask>"]
    return tiny_subwords.make_bpe(folder, special=special)


def make_pieces(folder: Path) -> int:
    """Write ``sentencepiece.bpe.model``, and return the number of symbols."""
    # Behind <s>, <pad>, </s> and <unk>, before <mask>.
    return len(SPECIAL) + len(write_pieces(folder / "sentencepiece.bpe.model", 60)) + 1


def make_roberta(folder: Path, *, is_xlmr: bool = False) -> Any:
    """Write model and subwords to a folder, and return the model."""
    hide_broken_torchaudio()
    from transformers import RobertaConfig, RobertaForMaskedLM, XLMRobertaConfig, XLMRobertaForMaskedLM

    sizes: dict[str, Any] = {
        "vocab_size": make_pieces(folder) if is_xlmr else make_bpe(folder), "max_position_embeddings": 26,
        "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 40,
        "type_vocab_size": 2, "layer_norm_eps": 1e-5,
    }  # fmt: skip
    torch.manual_seed(1)
    if is_xlmr:
        return save_noisy(folder, XLMRobertaForMaskedLM(XLMRobertaConfig(**sizes)))
    return save_noisy(folder, RobertaForMaskedLM(RobertaConfig(**sizes)))
