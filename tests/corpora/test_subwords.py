"""Subwords: fairseq's numbering, domain tags as symbols, the same model every time."""

import random
import shutil
from pathlib import Path

import pytest
import sentencepiece
from fairseq.data import Dictionary
from fairseq.data.data_utils import load_indexed_dataset

from fairseq_ext.corpora.split import Split, stable_hash, write_splits
from fairseq_ext.corpora.subwords import (
    DICT_FILE,
    MODEL_FILE,
    SentencePiece,
    Subwords,
    encode_lines,
    encode_splits,
    load_subwords,
    train_sentencepiece,
    train_subwords,
)
from fairseq_ext.corpora.text_files import Pair, write_lines, write_parallel
from fairseq_ext.data.binarise import binarise
from fairseq_ext.engine.tasks import Engine
from fairseq_ext.inputs.errors import InputError
from tests.small_corpus import NOUNS, read_tree, write_corpora

LANGS = ("en", "de")
TEXT = "show open close change find red green blue old account credit loan rate"


@pytest.fixture(scope="module")
def splits(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("corpus")
    write_corpora(folder)
    files = {name: (folder / f"{name}.en", folder / f"{name}.de") for name in NOUNS}
    write_splits(folder / "splits", files, LANGS, options=Split(valid=10, test=10), seed=1)
    return folder / "splits"


@pytest.fixture(scope="module")
def subwords(splits: Path) -> Path:
    folder = splits.parent / "subwords"
    folder.mkdir()
    train_subwords(folder, splits, LANGS, options=Subwords(vocab_size=70), seed=1)
    return folder


def test_encoding_keeps_lines_and_text(
    splits: Path, subwords: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fairseq_ext.corpora.subwords._BLOCK_LINES", 7)
    encode_splits(tmp_path, splits, subwords, LANGS)
    processor = sentencepiece.SentencePieceProcessor(model_file=str(subwords / MODEL_FILE))
    for domain in NOUNS:
        for name in ("train.en", "train.de", "test.de"):
            encoded = (tmp_path / domain / name).read_text().splitlines()
            decoded = [processor.decode_pieces(line.split(" ")) for line in encoded]
            assert decoded == (splits / domain / name).read_text().splitlines()


def test_each_language_is_cut_by_its_own_model_where_it_has_one(splits: Path, subwords: Path, tmp_path: Path) -> None:
    both = tmp_path / "both"
    shutil.copytree(subwords, both)
    options = SentencePiece(vocab_size=40)
    train_sentencepiece(tmp_path, [[splits / name / "train.de"] for name in NOUNS], [], options=options, seed=1)
    (tmp_path / MODEL_FILE).rename(both / "sentencepiece.de.model")
    (tmp_path / DICT_FILE).rename(both / "dict.de.txt")
    (both / DICT_FILE).rename(both / "dict.en.txt")
    encode_splits(tmp_path / "encoded", splits, both, LANGS)
    binarise(tmp_path, tmp_path / "encoded", both, LANGS, Engine(workers=1))
    for lang, model in (("en", MODEL_FILE), ("de", "sentencepiece.de.model")):
        text = (splits / f"bank/test.{lang}").read_text().splitlines()
        dictionary, processor = Dictionary.load(str(tmp_path / f"dict.{lang}.txt")), load_subwords(tmp_path / model)
        expected = [dictionary.encode_line(line, add_if_not_exist=False) for line in encode_lines(processor, text)]
        found = load_indexed_dataset(str(tmp_path / f"bank/test.en-de.{lang}"), dictionary)
        assert [row.tolist() for row in found] == [row.tolist() for row in expected]


def test_too_many_lines_are_sampled_by_hash(tmp_path: Path) -> None:
    """Whole rows are drawn, so both languages say the same; the order of lines does not matter."""
    rows = [(f"{one} the {other}", f"{one} das {other}") for one in TEXT.split() for other in TEXT.split()]

    def train(name: str, rows: list[tuple[str, str]], max_sentences: int) -> dict[str, bytes]:
        files = [tmp_path / f"{name}.{lang}" for lang in LANGS]
        write_parallel(files[0], files[1], [Pair(*row) for row in rows])
        (tmp_path / name).mkdir()
        options = SentencePiece(vocab_size=34, max_sentences=max_sentences)
        train_sentencepiece(tmp_path / name, [files], [], options=options, seed=5)
        return read_tree(tmp_path / name)

    chosen = sorted(rows, key=lambda row: (stable_hash(5, *row), row))[:60]
    sampled = train("sampled", rows, 121)
    assert sampled == train("chosen", chosen, 120)
    assert sampled == train("shuffled", random.Random(1).sample(rows, len(rows)), 121)
    assert sampled != train("whole", rows, 338)


def test_impossible_size_names_the_possible_one(splits: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"vocab_size: 9000 is too large for this text; give at most \d+"):
        train_subwords(tmp_path, splits, LANGS, options=Subwords(vocab_size=9000), seed=1)
    with pytest.raises(InputError, match=r"vocab_size: 20 is too small for this text; give at least \d+"):
        train_subwords(tmp_path, splits, LANGS, options=Subwords(vocab_size=20), seed=1)


def test_text_of_unknown_characters_does_not_yield_special_symbols(tmp_path: Path) -> None:
    write_lines(tmp_path / "text", ["你好 世界 再见 天气 很好"] * 50)
    options = SentencePiece(vocab_size=15)
    train_sentencepiece(tmp_path, [[tmp_path / "text"]], [], options=options, seed=1)
    processor, dictionary = load_subwords(tmp_path / MODEL_FILE), Dictionary.load(str(tmp_path / DICT_FILE))
    # So the model says it: a text of characters it does not know.
    assert "<s>" in processor.encode("你 <s> 好", out_type=str)
    for text in ("<s>", "</s>", "<pad>", "<unk>", "<mask>"):
        [line] = encode_lines(processor, [f"你 {text} 好"])
        special = (dictionary.bos(), dictionary.pad(), dictionary.eos())
        tokens = dictionary.encode_line(line, add_if_not_exist=False, append_eos=False).tolist()
        assert dictionary.unk() in tokens
        assert not set(special) & set(tokens)


@pytest.mark.parametrize(
    "tag",
    [
        "<domain:garden>",
        "<dom\x01ain:garden>",
    ],
)
def test_tag_in_text_is_refused(splits: Path, subwords: Path, tmp_path: Path, tag: str) -> None:
    copy = tmp_path / "splits"
    for name, data in read_tree(splits).items():
        (copy / name).parent.mkdir(parents=True, exist_ok=True)
        (copy / name).write_bytes(data)
    lines = (copy / "bank" / "train.de").read_text().splitlines()
    lines[6] += f" {tag}"
    (copy / "bank" / "train.de").write_text("\n".join(lines) + "\n")
    with pytest.raises(InputError, match=r"bank/train\.de, line 7: has the reserved symbol <domain:garden>"):
        encode_splits(tmp_path / "encoded", copy, subwords, LANGS)
