"""Vectors of words from those of their subwords."""

import importlib
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file
from tokenizers import Tokenizer, models, pre_tokenizers


def test_the_vector_of_a_word_is_the_mean_of_its_subwords(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    subwords = ["b", "a", "n", "k", "ba", "nk", "bank"]
    tokenizer = Tokenizer(models.BPE(vocab={name: place for place, name in enumerate(subwords)}, merges=[("b", "a")]))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    save_file({"vectors": torch.arange(14.0).reshape(7, 2)}, tmp_path / "vectors.safetensors")
    (tmp_path / "text").write_text("ban k\nban\n", encoding="utf-8")
    files = [tmp_path / name for name in ("vectors.safetensors", "tokenizer.json", "text", "out")]
    monkeypatch.syspath_prepend(Path(__file__).resolve().parents[1] / "tools")
    monkeypatch.setattr(sys, "argv", ["subword_vectors.py", *map(str, files)])
    importlib.import_module("subword_vectors").main()
    # ban is ba (8, 9) and n (4, 5); k is (6, 7).
    assert (tmp_path / "out").read_text(encoding="utf-8") == "ban 6.00000 7.00000\nk 6.00000 7.00000\n"
