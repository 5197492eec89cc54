"""RoBERTa's and XLM-R's subwords in both libraries' files, and text through both libraries' encoders."""

import json
import random
from argparse import Namespace
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from fairseq.data import Dictionary, encoders
from tokenizers import Tokenizer
from tokenizers.models import WordPiece
from tokenizers.normalizers import BertNormalizer
from tokenizers.pre_tokenizers import BertPreTokenizer

from fairseq_ext.base.errors import InputError
from fairseq_ext.convert.sentencepiece_models import read_xlmr, unigram_of_tokenizer
from fairseq_ext.convert.subwords import read_vocabulary, write_subwords
from fairseq_ext.convert.tokenizer_checks import check_same_pieces
from fairseq_ext.modules.pretrained import hide_broken_torchaudio
from fairseq_ext.text.encoders import fairseq_bpe_options, load_encoder
from tests.convert.tiny_roberta import make_bpe, make_pieces, make_wordpieces
from tests.text.odd_texts import ODD_TEXTS
from tests.text.tiny_pieces import write_pieces

# Hugging Face's tokeniser takes special symbols out of a text first.
TEXTS = [text for text in ODD_TEXTS if "</s>" not in text]
KINDS = {"roberta": make_bpe, "mask-first": partial(make_bpe, mask_last=False), "xlmr": make_pieces}
OWN_IDS = {"bos_id": 0, "pad_id": 1, "eos_id": 2, "unk_id": 3}  # of this project's SentencePiece models


@pytest.fixture(params=KINDS)
def source(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """The files of one of Hugging Face's directories."""
    KINDS[request.param](tmp_path / "source")
    return tmp_path / "source"


def imported(source: Path, folder: Path) -> Path:
    """The files that an import writes."""
    folder.mkdir()
    write_subwords(folder, read_vocabulary(source))
    return folder


def tokenizer_of(folder: Path) -> Any:
    hide_broken_torchaudio()
    from transformers import RobertaTokenizer, XLMRobertaTokenizer

    names = {path.name for path in folder.iterdir()}
    is_xlmr = "sentencepiece.bpe.model" in names
    return (XLMRobertaTokenizer if is_xlmr else RobertaTokenizer).from_pretrained(folder)


@pytest.mark.slow
def test_text_has_hugging_faces_numbers(source: Path, tmp_path: Path) -> None:
    rng = random.Random(1)
    texts = TEXTS + ["".join(rng.choices("aé 🙂\n\r\t'st1½。|ク\u3000", k=20)) for _ in range(200)]
    folder, tokenizer = imported(source, tmp_path / "fs"), tokenizer_of(source)
    dictionary, order = Dictionary.load(str(folder / "dict.txt")), read_vocabulary(source).order()
    dictionary.add_symbol("<mask>")  # as fairseq's tasks do
    options = {key.replace("-", "_"): value for key, value in fairseq_bpe_options(folder).items()}
    fairseqs = encoders.build_bpe(Namespace(**options))
    assert len(dictionary) == len(order) == len(tokenizer)
    for text, pieces in zip(texts, load_encoder(folder)(texts), strict=True):
        assert pieces == fairseqs.encode(text)
        rows = dictionary.encode_line(pieces, add_if_not_exist=False).tolist()
        assert tokenizer(text)["input_ids"] == [0, *(order[row] for row in rows)]


@pytest.mark.slow
def test_tokenizer_json_is_enough(source: Path, tmp_path: Path) -> None:
    tokenizer_of(source).save_pretrained(tmp_path / "saved")
    assert {path.name for path in (tmp_path / "saved").iterdir()} == {"tokenizer.json", "tokenizer_config.json"}
    one, other = imported(tmp_path / "saved", tmp_path / "one"), imported(source, tmp_path / "other")
    assert (one / "dict.txt").read_bytes() == (other / "dict.txt").read_bytes()
    rng = random.Random(1)
    texts = ODD_TEXTS + ["".join(rng.choices("aé The old 🙂\n'st1½。\u0301\u200dำ", k=20)) for _ in range(200)]
    assert list(load_encoder(one)(texts)) == list(load_encoder(other)(texts))


@pytest.mark.slow
def test_another_tokenizer_beside_the_same_files_is_refused(source: Path, tmp_path: Path) -> None:
    tokenizer_of(source).save_pretrained(source)
    encode = load_encoder(imported(source, tmp_path / "fs"))
    path, is_numbered = source / "tokenizer.json", (source / "vocab.json").is_file()
    content = json.loads(path.read_text())
    padded = {"truncation": {"direction": "Right", "max_length": 2, "strategy": "LongestFirst", "stride": 0}}
    path.write_text(json.dumps(content | padded))
    check_same_pieces(source, encode, is_numbered)
    path.write_text(json.dumps(content | {"normalizer": {"type": "Lowercase"}}))
    with pytest.raises(InputError, match=r"tokenizer\.json: splits \"The Quick"):
        check_same_pieces(source, encode, is_numbered)


@pytest.mark.parametrize(
    ("config", "is_supported"),
    [
        ({}, True),
        ({"strip_accents": True}, True),
        ({"strip_accents": False}, False),
        ({"do_lower_case": False}, False),
        ({"do_lower_case": False, "tokenizer_class": "BertTokenizerFast"}, False),
        ({"do_lower_case": False, "tokenizer_class": "PreTrainedTokenizerFast"}, True),
    ],
)
def test_settings_of_a_bert_must_agree(tmp_path: Path, config: dict[str, Any], is_supported: bool) -> None:
    make_wordpieces(tmp_path)
    numbers = {piece: number for number, piece in enumerate((tmp_path / "vocab.txt").read_text().split())}
    tokenizer = Tokenizer(WordPiece(numbers, unk_token="[UNK]"))
    tokenizer.normalizer, tokenizer.pre_tokenizer = BertNormalizer(), BertPreTokenizer()
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(config))
    with nullcontext() if is_supported else pytest.raises(InputError, match=r"tokenizer_config\.json: do_lower_case"):
        assert read_vocabulary(tmp_path).lowercase


def test_other_sentencepiece_models_are_refused(tmp_path: Path) -> None:
    write_pieces(tmp_path / "sentencepiece.bpe.model", 60, **OWN_IDS)
    write_pieces(tmp_path / "x.model", 60, "char", hard_vocab_limit=False)
    with pytest.raises(InputError, match=r"it is not a file of XLM-R"):
        read_vocabulary(tmp_path)
    with pytest.raises(InputError, match=r"x\.model: its model_type is CHAR"):
        read_xlmr(tmp_path / "x.model")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"model": {"vocab": [["a", "x"]]}}, "not a supported tokeniser of XLM-R"),
        ({"model": {"vocab": [["a", 0.0]]}}, "its first symbols"),
        ({"normalizer": {"type": "Lowercase"}}, "normalisation Lowercase"),
    ],
)
def test_other_tokenizers_are_refused(changes: dict[str, Any], message: str) -> None:
    vocab = [[name, 0.0] for name in ("<s>", "<pad>", "</s>", "<unk>", "a", "<mask>")]
    with pytest.raises(InputError, match=message):
        unigram_of_tokenizer({"model": {"vocab": vocab}, **changes}, Path("tokenizer.json"))
