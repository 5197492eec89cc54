"""SentencePiece models as dictionaries of RoBERTa's: their layouts, and the other forms in which they come."""

import io
import json
from pathlib import Path
from typing import Any

import pytest
import sentencepiece
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers

from fairseq_ext.convert.sentencepiece_models import Unigram, read_unigram, unigram_of_tokenizer
from fairseq_ext.convert.subwords import read_vocabulary
from fairseq_ext.inputs.errors import InputError
from tests.convert.tiny_gpt2 import TEXT

OURS = {"bos_id": 0, "pad_id": 1, "eos_id": 2, "unk_id": 3}


def train(path: Path, **options: Any) -> Path:
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(TEXT), model_writer=model, vocab_size=60, num_threads=1, minloglevel=2, **options
    )
    path.write_bytes(model.getvalue())
    return path


def split(model: bytes, text: str) -> list[str]:
    return sentencepiece.SentencePieceProcessor(model_proto=model).encode(text, out_type=str)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"model_type": "char"}, r"x\.model: its kind is CHAR, XLM-R's is UNIGRAM"),
        ({"user_defined_symbols": ["<mask>"]}, r"x\.model: <mask> among its pieces; fairseq adds the special ones"),
    ],
)
def test_other_models_are_refused(tmp_path: Path, options: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        read_unigram(train(tmp_path / "x.model", **{"hard_vocab_limit": False, **options}))


def test_a_file_of_another_layout_is_no_xlmr(tmp_path: Path) -> None:
    train(tmp_path / "sentencepiece.bpe.model", **OURS)
    with pytest.raises(InputError, match=r"XLM-R's first three pieces are special and no others"):
        read_vocabulary(tmp_path)


def tokenizer(**changes: Any) -> dict[str, Any]:
    """A ``tokenizer.json`` as an older transformers wrote it."""
    names = ["<s>", "<pad>", "</s>", "<unk>", "▁a", "b", "▁", "<mask>"]
    made = Tokenizer(models.Unigram([(name, -float(number)) for number, name in enumerate(names)], unk_id=3))
    made.normalizer = normalizers.Sequence([normalizers.Strip(left=False), normalizers.Replace("  ", "▁")])
    made.pre_tokenizer = pre_tokenizers.Metaspace()
    return json.loads(made.to_str()) | changes


def test_a_tokenizer_without_normalisation() -> None:
    unigram: Unigram = unigram_of_tokenizer(tokenizer(), Path("tokenizer.json"))
    assert list(unigram.pieces) == ["▁a", "b", "▁"]
    assert split(unigram.model, "ab a ½") == ["▁a", "b", "▁a", "▁", "½"]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"model": {"vocab": [["a", "x"]]}}, r"is no tokeniser of XLM-R's kind \(TypeError"),
        ({"model": {"vocab": [["a", 0.0]]}}, r"its first symbols are not <s>, <pad>, </s>, <unk>"),
        ({"normalizer": {"type": "Lowercase"}}, r"\(ValueError: text passes Lowercase, Metaspace\)"),
        ({"normalizer": {"type": "Precompiled", "precompiled_charsmap": "AAAA"}}, r"tokenizer\.json: "),
    ],
)
def test_other_tokenizers_are_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message) as caught:
        unigram_of_tokenizer(tokenizer(**changes), Path("tokenizer.json"))
    assert "\n" not in str(caught.value)
