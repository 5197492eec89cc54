"""Subwords: fairseq's numbering, domain tags as symbols, the same model every time."""

import random
import shutil
from pathlib import Path

import pytest
import sentencepiece
from fairseq.data import Dictionary

from fairseq_ext.base.errors import InputError
from fairseq_ext.text.split import Split, stable_hash, write_splits
from fairseq_ext.text.subwords import (
    DICT_FILE,
    MODEL_FILE,
    SentencePiece,
    Subwords,
    copy_subwords,
    encode_lines,
    encode_splits,
    load_subwords,
    train_sentencepiece,
    train_subwords,
)
from fairseq_ext.text.text_files import Pair, read_lines, write_lines, write_parallel
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
    monkeypatch.setattr("fairseq_ext.text.subwords._BLOCK_LINES", 7)
    encode_splits(tmp_path, splits, subwords, LANGS)
    processor = sentencepiece.SentencePieceProcessor(model_file=str(subwords / MODEL_FILE))
    for domain in NOUNS:
        for name in ("train.en", "train.de", "test.de"):
            encoded = (tmp_path / domain / name).read_text().splitlines()
            decoded = [processor.decode_pieces(line.split(" ")) for line in encoded]
            assert decoded == (splits / domain / name).read_text().splitlines()


def test_each_language_is_cut_by_its_own_model_where_it_has_one(splits: Path, subwords: Path, tmp_path: Path) -> None:
    both = Path(shutil.copytree(subwords, tmp_path / "both"))
    options = SentencePiece(vocab_size=40)
    train_sentencepiece(tmp_path, [[splits / name / "train.de"] for name in NOUNS], [], options=options, seed=1)
    (tmp_path / MODEL_FILE).rename(both / "sentencepiece.de.model")
    (tmp_path / DICT_FILE).rename(both / "dict.de.txt")
    (both / DICT_FILE).rename(both / "dict.en.txt")
    encode_splits(tmp_path / "encoded", splits, both, LANGS)
    copy_subwords(both, tmp_path, LANGS)
    for lang, model in (("en", MODEL_FILE), ("de", "sentencepiece.de.model")):
        expected = encode_lines(load_subwords(tmp_path / model), read_lines(splits / f"bank/test.{lang}"))
        assert read_lines(tmp_path / "encoded" / f"bank/test.{lang}") == list(expected)
        assert (tmp_path / f"dict.{lang}.txt").read_bytes() == (both / f"dict.{lang}.txt").read_bytes()


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
    for size, remedy in ((9000, r"at most \d+"), (20, r"at least \d+")):
        with pytest.raises(InputError, match=rf"vocab_size: {size} .*{remedy}"):
            train_subwords(tmp_path, splits, LANGS, options=Subwords(vocab_size=size), seed=1)


def test_text_of_unknown_characters_does_not_yield_special_symbols(tmp_path: Path) -> None:
    write_lines(tmp_path / "text", ["你好 世界 再见 天气 很好"] * 50)
    options = SentencePiece(vocab_size=15)
    train_sentencepiece(tmp_path, [[tmp_path / "text"]], [], options=options, seed=1)
    processor, dictionary = load_subwords(tmp_path / MODEL_FILE), Dictionary.load(str(tmp_path / DICT_FILE))
    assert "<s>" in processor.encode("你 <s> 好", out_type=str)  # the model keeps unknown characters as they are
    for text in ("<s>", "</s>", "<pad>", "<unk>", "<mask>"):
        [line] = encode_lines(processor, [f"你 {text} 好"])
        special = (dictionary.bos(), dictionary.pad(), dictionary.eos())
        tokens = dictionary.encode_line(line, add_if_not_exist=False, append_eos=False).tolist()
        assert dictionary.unk() in tokens
        assert not set(special) & set(tokens)


@pytest.mark.parametrize("tag", ["<domain:garden>", "<dom\x01ain:garden>"])
def test_tag_in_text_is_refused(splits: Path, subwords: Path, tmp_path: Path, tag: str) -> None:
    copy = Path(shutil.copytree(splits, tmp_path / "splits"))
    lines = (copy / "bank" / "train.de").read_text().splitlines()
    lines[6] += f" {tag}"
    (copy / "bank" / "train.de").write_text("\n".join(lines) + "\n")
    with pytest.raises(InputError, match=r"bank/train\.de, line 7: .*<domain:garden>"):
        encode_splits(tmp_path / "encoded", copy, subwords, LANGS)
