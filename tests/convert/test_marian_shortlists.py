"""Marian's lexical shortlists, in a file written by hand."""

import re
import struct
from pathlib import Path

import pytest

from fairseq_ext.base.errors import InputError
from fairseq_ext.convert.marian_shortlists import read_shortlist
from fairseq_ext.convert.translation_vocabulary import Side

PATH = Path("lex.s2t.bin")
# fairseq numbers <s>, <pad>, </s>, <unk> first, then the rest in their order.
SOURCE, TARGET = Side(["</s>", "<unk>", "a", "b"], b""), Side(["</s>", "<unk>", "x", "y", "z"], b"")
MARK = 0xF11A48D5013417F5


def file(offsets: list[int], words: list[int], frequent: int = 3, mark: int = MARK) -> bytes:
    header = struct.pack("<6Q", mark, 1, frequent, 2, len(offsets), len(words))
    return header + struct.pack(f"<{len(offsets)}Q{len(words)}I", *offsets, *words)


GOOD = file([0, 0, 1, 3, 4], [2, 3, 4, 0])


def test_the_words_of_each_piece_in_fairseqs_numbers() -> None:
    lexicon = read_shortlist(GOOD, PATH, SOURCE, TARGET)
    found = [each.tolist() for each in lexicon.links()]
    # <unk> → x; a → y, z; b → </s>
    assert [*zip(*found, strict=True)] == [(3, 4), (4, 5), (4, 6), (5, 2)]
    assert lexicon.always.tolist() == [2, 3, 4]


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "is not a shortlist of Marian"),
        (GOOD[:40], "is not a shortlist of Marian"),
        (file([0, 0, 1, 3, 4], [2, 3, 4, 0], mark=1), "is not a shortlist of Marian"),
        (GOOD[:-4], "has 100 bytes, but its header says 104"),
        (GOOD + b"\0", "has 105 bytes, but its header says 104"),
        (struct.pack("<6Q", MARK, 1, 3, 2, 1 << 60, 1 << 61), "has 48 bytes, but its header says"),
        (file([0, 1, 3, 4], [2, 3, 4, 0]), "does not fit the vocabularies of 4 and 5 symbols"),
        (file([0, 0, 1, 3, 4], [2, 3, 5, 0]), "does not fit the vocabularies of 4 and 5 symbols"),
        (file([0, 0, 1, 3, 4], [2, 3, 4, 0], frequent=6), "does not fit the vocabularies of 4 and 5 symbols"),
        (file([0, 3, 1, 3, 4], [2, 3, 4, 0]), "its offsets are not ascending"),
        (file([1, 1, 1, 3, 4], [2, 3, 4, 0]), "its offsets are not ascending"),
        (file([0, 0, 1, 3, 1 << 62], [2, 3, 4, 0]), "its offsets are not ascending"),
    ],
)
def test_what_is_damaged_is_one_line(data: bytes, message: str) -> None:
    with pytest.raises(InputError, match=rf"lex.s2t.bin: {re.escape(message)}.*remove it to import") as caught:
        read_shortlist(data, PATH, SOURCE, TARGET)
    assert "\n" not in str(caught.value)
