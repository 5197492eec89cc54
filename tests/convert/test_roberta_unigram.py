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


def test_a_model_of_our_own_gets_xlmrs_layout(tmp_path: Path) -> None:
    unigram = read_unigram(train(tmp_path / "ours.model", **OURS))
    assert not unigram.has_xlmr_layout()
    (tmp_path / "theirs.model").write_bytes(unigram.in_xlmr_layout())
    theirs = read_unigram(tmp_path / "theirs.model")
    assert theirs.has_xlmr_layout()
    assert theirs.pieces == unigram.pieces
    assert len(theirs) == len(unigram) == 60 + 1
    processor = sentencepiece.SentencePieceProcessor(model_proto=theirs.model)
    assert [processor.id_to_piece(index) for index in range(3)] == ["<unk>", "<s>", "</s>"]
    for text in (*TEXT[:3], "½ é 日本", "  two  spaces "):
        assert split(theirs.model, text) == split(unigram.model, text)


def test_a_model_of_xlmrs_layout_stays_as_it_is(tmp_path: Path) -> None:
    unigram = read_unigram(train(tmp_path / "xlmr.model"))
    assert unigram.has_xlmr_layout()
    assert unigram.in_xlmr_layout() == (tmp_path / "xlmr.model").read_bytes()
    assert list(unigram.order()) == list(range(62))
    assert unigram.dictionary_lines()[0] == f"{unigram.pieces[0]} 1"


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


def test_damaged_models_are_one_clear_line(tmp_path: Path) -> None:
    path = tmp_path / "x.model"
    with pytest.raises(InputError, match=r"x\.model: cannot be read"):
        read_unigram(path)
    for content in (b"", b"nonsense", train(path).read_bytes()[:1000]):
        path.write_bytes(content)
        with pytest.raises(InputError, match=r"x\.model: ") as caught:
            read_unigram(path)
        assert "\n" not in str(caught.value)


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
        ({"model": {"type": "Unigram"}}, r"is no tokeniser of XLM-R's kind \(KeyError: 'vocab'\); give"),
        ({"model": {"vocab": [["a", "x"]]}}, r"is no tokeniser of XLM-R's kind \(TypeError"),
        ({"model": {"vocab": [["a", 0.0]]}}, r"its first symbols are not <s>, <pad>, </s>, <unk>"),
        ({"normalizer": {"type": "Lowercase"}}, r"\(ValueError: text passes Lowercase, Metaspace\)"),
        ({"normalizer": {"type": "Precompiled", "precompiled_charsmap": "?"}}, r"XLM-R's kind \(Error: "),
        ({"normalizer": {"type": "Precompiled", "precompiled_charsmap": "AAAA"}}, r"tokenizer\.json: "),
        ({"normalizer": ["x"]}, r"is no tokeniser of XLM-R's kind \(AttributeError"),
    ],
)
def test_other_tokenizers_are_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message) as caught:
        unigram_of_tokenizer(tokenizer(**changes), Path("tokenizer.json"))
    assert "\n" not in str(caught.value)
