"""RoBERTa's and XLM-R's subwords in both libraries' files, and text through both libraries' encoders."""

import io
import random
import shutil
from pathlib import Path
from typing import Any

import pytest
import sentencepiece
from fairseq.data import Dictionary, encoders

from fairseq_ext.convert.pretrained import hide_broken_torchaudio
from fairseq_ext.convert.sentencepiece_models import read_unigram, unigram_of_tokenizer
from fairseq_ext.convert.subwords import read_imported, read_vocabulary, write_subwords
from fairseq_ext.corpora.encoders import fairseq_bpe_options, load_encoder
from fairseq_ext.inputs.errors import InputError
from tests.convert.tiny_gpt2 import TEXT
from tests.convert.tiny_roberta import make_bpe, make_pieces
from tests.corpora.odd_texts import ODD_TEXTS

# Hugging Face's tokeniser takes special symbols out of a text first.
TEXTS = [text for text in ODD_TEXTS if "</s>" not in text]
KINDS = ["roberta", "mask-first", "xlmr"]


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The files of Hugging Face's directories."""
    folder = tmp_path_factory.mktemp("hugging-face")
    make_bpe(folder / "roberta")
    make_bpe(folder / "mask-first", mask_last=False)
    make_pieces(folder / "xlmr")
    return {name: folder / name for name in KINDS}


@pytest.fixture(scope="module")
def imported(sources: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The files that an import writes."""
    folders = {}
    for name, source in sources.items():
        folders[name] = tmp_path_factory.mktemp(name)
        write_subwords(folders[name], read_vocabulary(source))
    return folders


def tokenizer_of(folder: Path) -> Any:
    hide_broken_torchaudio()
    from transformers import RobertaTokenizer, XLMRobertaTokenizer

    names = {path.name for path in folder.iterdir()}
    is_xlmr = "sentencepiece.bpe.model" in names
    return (XLMRobertaTokenizer if is_xlmr else RobertaTokenizer).from_pretrained(folder)


def dictionary_of(folder: Path) -> Dictionary:
    """As fairseq's tasks have it."""
    dictionary = Dictionary.load(str(folder / "dict.txt"))
    dictionary.add_symbol("<mask>")
    return dictionary


def bpe_of(folder: Path) -> Any:
    """What fairseq's commands read text with."""
    options = {key.replace("-", "_"): value for key, value in fairseq_bpe_options(folder).items()}
    return encoders.build_bpe(type("Options", (), options)())


@pytest.mark.parametrize("name", KINDS)
def test_text_has_hugging_faces_numbers(sources: dict[str, Path], imported: dict[str, Path], name: str) -> None:
    rng = random.Random(1)
    texts = TEXTS + ["".join(rng.choices("aé 🙂\n\r\t'st1½。|ク\u3000", k=20)) for _ in range(200)]
    folder, tokenizer = imported[name], tokenizer_of(sources[name])
    dictionary, fairseqs, order = dictionary_of(folder), bpe_of(folder), read_imported(folder).order()
    assert len(dictionary) == len(order) == len(tokenizer)
    for text, pieces in zip(texts, load_encoder(folder)(texts), strict=True):
        assert pieces == fairseqs.encode(text)
        rows = dictionary.encode_line(pieces, add_if_not_exist=False).tolist()
        assert tokenizer(text)["input_ids"] == [0, *(order[row] for row in rows)]


@pytest.mark.parametrize("name", KINDS)
def test_tokenizer_json_is_enough(sources: dict[str, Path], tmp_path: Path, name: str) -> None:
    tokenizer_of(sources[name]).save_pretrained(tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {"tokenizer.json", "tokenizer_config.json"}
    one, other = tmp_path / "one", tmp_path / "other"
    for folder, source in ((one, tmp_path), (other, sources[name])):
        folder.mkdir()
        write_subwords(folder, read_vocabulary(source))
    assert (one / "dict.txt").read_bytes() == (other / "dict.txt").read_bytes()
    rng = random.Random(1)
    texts = ODD_TEXTS + ["".join(rng.choices("aé The old 🙂\n'st1½。\u0301\u200dำ", k=20)) for _ in range(200)]
    assert list(load_encoder(one)(texts)) == list(load_encoder(other)(texts))


def test_a_dictionary_of_other_subwords_is_refused(imported: dict[str, Path], tmp_path: Path) -> None:
    shutil.copytree(imported["xlmr"], tmp_path / "xlmr")
    lines = (tmp_path / "xlmr/dict.txt").read_text().splitlines(keepends=True)
    (tmp_path / "xlmr/dict.txt").write_text("".join([*lines[1:], lines[0]]))
    with pytest.raises(InputError, match=r"of sentencepiece\.model"):
        read_imported(tmp_path / "xlmr")


def train(path: Path, **options: Any) -> Path:
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(TEXT), model_writer=model, vocab_size=60, num_threads=1, minloglevel=2, **options
    )
    path.write_bytes(model.getvalue())
    return path


def test_a_model_of_our_own_gets_xlmrs_layout(tmp_path: Path) -> None:
    own = read_unigram(train(tmp_path / "own.model", bos_id=0, pad_id=1, eos_id=2, unk_id=3))
    assert not own.has_xlmr_layout()
    (tmp_path / "xlmr.model").write_bytes(own.in_xlmr_layout())
    laid_out = read_unigram(tmp_path / "xlmr.model")
    assert laid_out.has_xlmr_layout()
    assert laid_out.pieces == own.pieces
    cut, cut_anew = (sentencepiece.SentencePieceProcessor(model_proto=each.model) for each in (own, laid_out))
    for text in ODD_TEXTS:
        assert cut_anew.encode(text, out_type=str) == cut.encode(text, out_type=str)


def test_other_sentencepiece_models_are_refused(tmp_path: Path) -> None:
    train(tmp_path / "sentencepiece.bpe.model", bos_id=0, pad_id=1, eos_id=2, unk_id=3)
    with pytest.raises(InputError, match=r"XLM-R's first three pieces are special and no others"):
        read_vocabulary(tmp_path)
    with pytest.raises(InputError, match=r"x\.model: its kind is CHAR"):
        read_unigram(train(tmp_path / "x.model", hard_vocab_limit=False, model_type="char"))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"model": {"vocab": [["a", "x"]]}}, "is no tokeniser of XLM-R's kind"),
        ({"model": {"vocab": [["a", 0.0]]}}, "its first symbols"),
        ({"normalizer": {"type": "Lowercase"}}, "text passes Lowercase"),
    ],
)
def test_other_tokenizers_are_refused(changes: dict[str, Any], message: str) -> None:
    vocab = [[name, 0.0] for name in ("<s>", "<pad>", "</s>", "<unk>", "a", "<mask>")]
    with pytest.raises(InputError, match=message):
        unigram_of_tokenizer({"model": {"vocab": vocab}, **changes}, Path("tokenizer.json"))
