"""A RoBERTa, an XLM-R and a BERT of some thousand random weights, with subwords of a page, in files of Hugging Face."""

import json
from pathlib import Path
from typing import Any

import torch
from tokenizers.implementations import ByteLevelBPETokenizer

from fairseq_ext.modules.pretrained import hide_broken_torchaudio
from tests.text.tiny_pieces import TEXT, write_pieces

SPECIAL = ["<s>", "<pad>", "</s>", "<unk>"]
BERTS_SPECIAL = ["[PAD]", "[unused0]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]


def make_bpe(folder: Path, *, mask_last: bool = True) -> int:
    """Write ``vocab.json`` and ``merges.txt`` of a byte-level BPE, and return the number of symbols.

    ``<mask>`` is the last one, as in Meta's RoBERTa, or behind the other special ones, as in those of Hugging Face's
    own tutorial.
    """
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer = ByteLevelBPETokenizer()
    special = SPECIAL if mask_last else [*SPECIAL, "<mask>"]
    tokenizer.train_from_iterator(TEXT, vocab_size=320, min_frequency=2, special_tokens=special)
    tokenizer.save_model(str(folder))
    ids = tokenizer.get_vocab()
    ids.setdefault("<mask>", len(ids))
    (folder / "vocab.json").write_text(json.dumps(ids, ensure_ascii=False), encoding="utf-8")
    return len(ids)


def make_pieces(folder: Path) -> int:
    """Write ``sentencepiece.bpe.model``, and return the number of symbols."""
    # Behind <s>, <pad>, </s> and <unk>, before <mask>.
    return len(SPECIAL) + len(write_pieces(folder / "sentencepiece.bpe.model", 60)) + 1


def make_wordpieces(folder: Path) -> int:
    """Write ``vocab.txt``, and return the number of pieces: letters, some endings, the words of half the page."""
    folder.mkdir(parents=True, exist_ok=True)
    letters = sorted({letter for letter in "".join(TEXT[::2]).lower() if letter.isalnum()} | {*".,!'"})
    words = sorted({word for line in TEXT[::2] for word in line.lower().split() if word.isalpha() and len(word) > 1})
    endings = [*(f"##{letter}" for letter in letters if letter.isalnum()), "##ing", "##ed"]
    pieces = [*BERTS_SPECIAL, *letters, *endings, *words]
    (folder / "vocab.txt").write_text("".join(f"{piece}\n" for piece in pieces), encoding="utf-8")
    return len(pieces)


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
        return _save_noisy(folder, XLMRobertaForMaskedLM(XLMRobertaConfig(**sizes)))
    return _save_noisy(folder, RobertaForMaskedLM(RobertaConfig(**sizes)))


def make_bert(folder: Path, *, with_head: bool = True) -> Any:
    """Write model and pieces to a folder, and return the model."""
    hide_broken_torchaudio()
    from transformers import BertConfig, BertForMaskedLM, BertModel

    config = BertConfig(
        vocab_size=make_wordpieces(folder), max_position_embeddings=24, hidden_size=16, num_hidden_layers=2,
        num_attention_heads=4, intermediate_size=40,
    )  # fmt: skip
    torch.manual_seed(1)
    # Embeddings stay small, so that the epsilon of their norm matters.
    return _save_noisy(folder, (BertForMaskedLM if with_head else BertModel)(config), small="_embeddings")


def _save_noisy(folder: Path, model: Any, small: str = "nothing") -> Any:
    """Write a model to a folder, and return it; what has ``small`` in its name gets little noise.

    Biases, norms and the rows of <pad> start at 0 and 1: as they are, a wrong one would not be seen.
    """
    with torch.no_grad():
        for name, parameter in model.eval().named_parameters():
            parameter.add_(torch.randn_like(parameter) * (0.01 if small in name else 0.3))
    model.save_pretrained(folder)
    return model
