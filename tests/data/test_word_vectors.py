"""Word vectors are the file's, in the dictionary's order, whatever the file's form; what is wrong is named."""

import gzip
import re
import struct
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from fairseq.data import Dictionary

from fairseq_ext.base.errors import InputError
from fairseq_ext.data.word_vectors import cut_vectors, vectors_for

ROWS = {"the": [1.0, 2.0, -3.0], "</s>": [0.5, 0.0, 0.0], "naïve": [0.25, -1.5, 4.0], "other": [9.0, 9.0, 9.0]}


def glove(rows: dict[str, list[float]]) -> bytes:
    return "".join(f"{word} {' '.join(map(str, row))}\n" for word, row in rows.items()).encode()


def word2vec(rows: dict[str, list[float]]) -> bytes:
    return f"{len(rows)} 3\n".encode() + glove(rows)


def binary(rows: dict[str, list[float]]) -> bytes:
    vectors = b"".join(word.encode() + b" " + struct.pack("<3f", *row) + b"\n" for word, row in rows.items())
    return f"{len(rows)} 3\n".encode() + vectors


@pytest.fixture
def dictionary() -> Dictionary:
    """Words, the most frequent first, and one that only fills up."""
    words = Dictionary()
    for word, count in {"the": 6, "cat": 3, "naïve": 1, "madeupword0000": 0}.items():
        words.add_symbol(word, count)
    return words


def write(path: Path, content: bytes) -> Path:
    path.write_bytes(content)
    return path


@pytest.mark.parametrize("form", [glove, word2vec, binary])
def test_all_forms_give_the_same(
    form: Callable, tmp_path: Path, dictionary: Dictionary, capsys: pytest.CaptureFixture
) -> None:
    """Names say nothing: the binary is .txt here, too."""
    expected = torch.zeros(8, 3)
    for word in ("the", "naïve", "</s>"):
        expected[dictionary.index(word)] = torch.tensor(ROWS[word])
    for name, content in (("v.txt", form(ROWS)), ("v.gz", gzip.compress(form(ROWS)))):
        assert torch.equal(vectors_for(dictionary, write(tmp_path / name, content)), expected)
    assert "2 words found, 1 missing (30.0 % of the running text)" in capsys.readouterr().err


def test_what_is_cut_out_gives_the_same(tmp_path: Path, dictionary: Dictionary) -> None:
    """Symbols with a row of their own name, too; words of others are gone."""
    file = write(tmp_path / "v.txt", glove({**ROWS, "<pad>": [1.0, 1.0, 1.0], "madeupword0000": [0.1, 0.2, 0.3]}))
    cut_vectors(dictionary, file, tmp_path / "cut.bin")
    whole, cut = (vectors_for(dictionary, path, "mean", 0.05) for path in (file, tmp_path / "cut.bin"))
    assert torch.equal(cut, whole)
    assert b"other" not in (tmp_path / "cut.bin").read_bytes()


def test_missing_words_take_the_mean_of_those_found(tmp_path: Path, dictionary: Dictionary) -> None:
    result = vectors_for(dictionary, write(tmp_path / "v", glove(ROWS)), "mean")
    mean = torch.tensor([0.625, 0.25, 0.5])
    for symbol in ("cat", "<unk>", "<s>", "madeupword0000"):
        assert torch.equal(result[dictionary.index(symbol)], mean)
    assert torch.equal(result[dictionary.pad()], torch.zeros(3))
    assert torch.equal(result[dictionary.eos()], torch.tensor(ROWS["</s>"]))


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"once upon a time\nthere was\n",
        b"the 12\ncat 3\n",
        b"the 1 2 3\ncat 1 2\n",
        binary(ROWS)[:-9],
        b"dog 1 2 3\n",
        b"the 1 2 nan\n",
    ],
)
def test_mistakes_are_named(content: bytes, tmp_path: Path, dictionary: Dictionary) -> None:
    with pytest.raises(InputError, match=re.escape(str(tmp_path / "v"))) as caught:
        vectors_for(dictionary, write(tmp_path / "v", content))
    assert "\n" not in str(caught.value)
