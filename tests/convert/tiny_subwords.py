"""A byte-level BPE learned from a page, as Hugging Face keeps it, and noise for tiny models."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from tokenizers.implementations import ByteLevelBPETokenizer

from tests.text.tiny_pieces import TEXT


def make_bpe(folder: Path, text: Sequence[str] = TEXT, special: Sequence[str] = (), last: str = "<mask>") -> int:
    """Write ``vocab.json`` and ``merges.txt``, and return the number of symbols."""
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer = ByteLevelBPETokenizer()
    tokenizer.train_from_iterator(text, vocab_size=320, min_frequency=2, special_tokens=[*special])
    tokenizer.save_model(str(folder))
    ids = tokenizer.get_vocab()
    ids.setdefault(last, len(ids))
    (folder / "vocab.json").write_text(json.dumps(ids, ensure_ascii=False), encoding="utf-8")
    return len(ids)


def save_noisy(folder: Path, model: Any, small: str = "nothing") -> Any:
    """Write a model to a folder, and return it; what has ``small`` in its name gets little noise.

    Biases, norms and the rows of <pad> start at 0 and 1: as they are, a wrong one would not be seen.
    """
    with torch.no_grad():
        for name, parameter in model.eval().named_parameters():
            parameter.add_(torch.randn_like(parameter) * (0.01 if small in name else 0.3))
    model.save_pretrained(folder)
    return model
