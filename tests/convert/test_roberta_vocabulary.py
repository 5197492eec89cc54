"""RoBERTa's and XLM-R's subwords in both libraries' files, and text through both libraries' encoders."""

import random
from pathlib import Path
from typing import Any

import pytest
from fairseq.data import Dictionary, encoders

from fairseq_ext.convert.pretrained import hide_broken_torchaudio
from fairseq_ext.convert.subwords import read_imported, read_vocabulary, write_subwords, write_tokenizer
from fairseq_ext.corpora.encoders import fairseq_bpe_options, load_encoder, subword_files
from fairseq_ext.inputs.errors import InputError
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


@pytest.mark.parametrize("name", KINDS)
def test_export_reads_text_in_the_same_way(
    sources: dict[str, Path], imported: dict[str, Path], tmp_path: Path, name: str
) -> None:
    write_tokenizer(tmp_path, read_imported(imported[name]), 24)
    one, other = tokenizer_of(tmp_path), tokenizer_of(sources[name])
    assert one.model_max_length == 24
    for text in (*ODD_TEXTS, "a <mask> b"):
        assert one(text)["input_ids"] == other(text)["input_ids"]
    assert one("a", "b")["input_ids"] == other("a", "b")["input_ids"]


def test_kinds_are_told_by_the_dictionary_or_refused(imported: dict[str, Path], tmp_path: Path) -> None:
    assert subword_files(imported["roberta"]) == ("dict.txt", "vocab.json", "merges.txt")
    assert subword_files(imported["xlmr"]) == ("dict.txt", "sentencepiece.model")
    for name, message in (("roberta", r"is not the dictionary of vocab\.json"), ("xlmr", r"of sentencepiece\.model")):
        folder = tmp_path / name
        folder.mkdir()
        for file in subword_files(imported[name]):
            (folder / file).write_bytes((imported[name] / file).read_bytes())
        lines = (folder / "dict.txt").read_text().splitlines()
        (folder / "dict.txt").write_text("\n".join([*lines[1:], lines[0]]) + "\n")
        with pytest.raises(InputError, match=message):
            read_imported(folder)
