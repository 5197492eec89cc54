"""WordPiece: which rows the pieces have, what is written, and what is refused."""

import json
from pathlib import Path
from typing import Any

import pytest

from fairseq_ext.base.errors import InputError
from fairseq_ext.text.encoders import load_encoder
from fairseq_ext.text.wordpiece import WordPiece, join_pieces, read_wordpiece, wordpiece_encoder, write_wordpiece

PIECES = ["[PAD]", "cat", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "##s", "the", ",", "é"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_wordpiece(tmp_path, WordPiece(PIECES))
    (tmp_path / "dict.txt").write_text("".join(f"{line}\n" for line in WordPiece(PIECES).dictionary_lines()))
    return tmp_path


def test_special_pieces_have_fairseqs_rows(folder: Path) -> None:
    vocabulary = read_wordpiece(folder / "wordpiece.json")
    assert vocabulary == WordPiece(PIECES)
    assert vocabulary.order() == [3, 0, 4, 2, 1, 6, 7, 8, 9, 5]
    assert vocabulary.dictionary_lines() == ["cat 1", "##s 1", "the 1", ", 1", "é 1"]


def test_text_is_cut_and_comes_back(folder: Path) -> None:
    texts = ["The cats, CATS", "dog", "", "<s> [MASK] cat", "c\u0301at"]
    found = list(load_encoder(folder)(texts))
    assert found == ["the cat ##s , cat ##s", "<unk>", "", "<unk> <unk> <unk> <unk> <unk> <unk> cat", "cat"]
    assert join_pieces(found[0]) == "the cats , cats"
    for choices, pieces in (({}, "<unk> cat"), ({"strip_accents": False}, "é cat"), ({"lowercase": False}, "é <unk>")):
        assert list(wordpiece_encoder(WordPiece(PIECES, **choices))(["é Cat"])) == [pieces]


@pytest.mark.parametrize(
    "changes",
    [{"pieces": PIECES[1:]}, *({"pieces": [*PIECES, odd]} for odd in ("cat", "a b", 3)), {"lowercase": 1}],
)
def test_other_files_are_refused(folder: Path, changes: dict[str, Any]) -> None:
    path = folder / "wordpiece.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))
    with pytest.raises(InputError, match=r"wordpiece\.json: "):
        read_wordpiece(path)
    write_wordpiece(folder, WordPiece(PIECES))
    (folder / "dict.txt").write_text("the 1\n")
    with pytest.raises(InputError, match=r"dict\.txt: "):
        load_encoder(folder)
