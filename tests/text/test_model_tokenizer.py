"""Tokenizers of language models made with SentencePiece: lines are those of the whole text."""

import json
from pathlib import Path
from typing import Any

import pytest
import sentencepiece

from fairseq_ext.base.errors import InputError
from fairseq_ext.modules.causal_models import tokenizer_of
from fairseq_ext.text.model_tokenizer import ModelTokenizer
from tests.models.tiny_causal import TEXT

LINES = ["The old tree", "  12.5 % in 2024.", "猫 \t <s>", "", "bank's rate"]
WHOLE = {"byte_fallback": True, "normalization_rule_name": "identity", "remove_extra_whitespaces": False}


def make(folder: Path, kind: str, **options: Any) -> ModelTokenizer:
    """A tokenizer in the files of a model, without tokenizer.json."""
    (folder / "text.txt").write_text("\n".join(TEXT), encoding="utf-8")
    sentencepiece.SentencePieceTrainer.train(
        input=str(folder / "text.txt"), model_prefix=str(folder / "tokenizer"), hard_vocab_limit=False, minloglevel=2,
        **{"vocab_size": 420, **options},
    )  # fmt: skip
    (folder / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": kind, "legacy": False}))
    (folder / "config.json").write_text(json.dumps({"model_type": "llama"}))
    return ModelTokenizer(tokenizer_of(folder), folder)


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        ("LlamaTokenizer", {"model_type": "bpe", "add_dummy_prefix": True}),
        ("GemmaTokenizer", {"model_type": "bpe", "add_dummy_prefix": False}),
        ("LlamaTokenizer", {"model_type": "unigram", "vocab_size": 400}),
    ],
)
def test_lines_are_those_of_the_whole_text(tmp_path: Path, kind: str, options: dict[str, Any]) -> None:
    tokenizer = make(tmp_path, kind, **WHOLE, **options)
    whole = tokenizer._tokenizer
    order = tokenizer.order(whole.get_vocab_size(), 2)
    assert whole.id_to_token(order[2]) == "<0x0A>"
    encoded = list(tokenizer.encode(LINES))
    ours = [number for line in encoded for number in (*map(int, line.split()), order[2])]
    expected = whole.encode("\n" + "".join(f"{line}\n" for line in LINES), add_special_tokens=False).ids
    assert ours == expected[expected.index(order[2]) + 1 :]
    assert [tokenizer.decode(line) for line in encoded] == LINES


def test_a_tokenizer_without_spare_tokens_is_refused(tmp_path: Path) -> None:
    tokenizer = make(tmp_path, "LlamaTokenizer", model_type="unigram", vocab_size=120)
    with pytest.raises(InputError, match="needs three tokens that no text contains"):
        tokenizer.order(tokenizer._tokenizer.get_vocab_size(), 2)
