"""Marian's files: what is written is read, and damage ends in one line before anything is allocated."""

import re
import struct
from pathlib import Path

import numpy as np
import pytest

from fairseq_ext.base.errors import InputError
from fairseq_ext.convert.marian_files import read_model, read_shortlist
from fairseq_ext.convert.translation_vocabulary import Side

FLOAT, INT8, INT16, BYTES = 0x404, 0x4101, 0x4102, 0x101
PATH, SHORTLIST = Path("model.bin"), Path("lex.s2t.bin")


def pack(*arrays: tuple[str, int, tuple[int, ...], bytes], version: int = 1) -> bytes:
    """A ``.bin`` with arrays of a name, a type, a shape and data."""
    names = b"".join(name.encode() + b"\0" for name, *_ in arrays)
    heads = b"".join(
        struct.pack("<4Q", len(name) + 1, kind, len(shape), len(data)) for name, kind, shape, data in arrays
    )
    shapes = b"".join(struct.pack(f"<{len(shape)}i", *shape) for _, _, shape, _ in arrays)
    start = struct.pack("<2Q", version, len(arrays)) + heads + names + shapes
    padding = -(len(start) + 8) % 256
    return start + struct.pack("<Q", padding) + bytes(padding) + b"".join(data for *_, data in arrays)


YAML = b"type: transformer\ndim-emb: 8\n\0"
OPTIONS = ("special:model.yml", BYTES, (len(YAML),), YAML)
ONES = ("b", FLOAT, (1, 2), np.float32([1, 2]).tobytes())


def quantised(name: str, kind: int, values: list[int], scale: float) -> tuple[str, int, tuple[int, ...], bytes]:
    data = np.array(values, np.int8 if kind == INT8 else np.int16).tobytes() + np.float32(scale).tobytes()
    return name, kind, (2, 3), data + bytes(250)


def test_integers_are_divided_by_their_scale_and_matrices_are_transposed() -> None:
    values = [1, 2, 3, 4, 5, -6]
    model = read_model(pack(quantised("W1", INT8, values, 2), quantised("Wemb", INT16, values, 4), ONES, OPTIONS), PATH)
    assert model.is_quantised
    assert model.options == {"type": "transformer", "dim-emb": 8}
    assert model.arrays["W1"].tolist() == [[0.5, 1.5, 2.5], [1, 2, -3]]  # its data have the shape 3×2
    assert model.arrays["Wemb"].tolist() == [[0.25, 0.5, 0.75], [1, 1.25, -1.5]]
    assert model.arrays["b"].tolist() == [[1, 2]]


WHOLE = pack(ONES, OPTIONS)


@pytest.mark.parametrize(
    ("data", "match"),
    [
        (b"", "is cut off: its header needs 16 bytes at byte 0, but 0 are left"),
        (WHOLE[:60], "is cut off: the header of array 1"),
        (WHOLE[:-1], "is cut off: special:model.yml needs"),
        (WHOLE + b"\0", "has 1 bytes after its last array"),
        (pack(ONES, OPTIONS, version=2), "is not a model of Marian: it begins with 0x2"),
        (pack(ONES), "has no entry special:model.yml"),
        (pack(("b", FLOAT, (1 << 30, 1 << 30), bytes(8)), OPTIONS), r"needs 4611686018427387904 bytes, but has 8"),
        (pack(("b", FLOAT, (-1, 2), bytes(8)), OPTIONS), "has the shape"),
        (pack(("b", 0x5101, (1, 2), bytes(8)), OPTIONS), "b is packed for one kind of processor .*0x5101"),
        (pack(("b", 0x104, (1, 2), bytes(8)), OPTIONS), "b has numbers of another type"),
        (pack(("b", FLOAT, (1, 1), np.float32([np.nan]).tobytes()), OPTIONS), "b has numbers that are not finite"),
        (pack(ONES, ONES, OPTIONS), "two arrays of one name"),
        (pack(ONES, ("special:model.yml", BYTES, (4,), b"a: [")), r"model\.bin: special:model\.yml"),
    ],
)
def test_damage_ends_in_one_line(data: bytes, match: str) -> None:
    with pytest.raises(InputError, match=match) as caught:
        read_model(data, PATH)
    assert str(caught.value).startswith("model.bin: ")
    assert "\n" not in str(caught.value)


# fairseq numbers <s>, <pad>, </s>, <unk> first, then the rest in their order.
SOURCE, TARGET = Side(["</s>", "<unk>", "a", "b"], b""), Side(["</s>", "<unk>", "x", "y", "z"], b"")
MARK = 0xF11A48D5013417F5


def shortlist(offsets: list[int], words: list[int], frequent: int = 3, mark: int = MARK) -> bytes:
    header = struct.pack("<6Q", mark, 1, frequent, 2, len(offsets), len(words))
    return header + struct.pack(f"<{len(offsets)}Q{len(words)}I", *offsets, *words)


GOOD = shortlist([0, 0, 1, 3, 4], [2, 3, 4, 0])


def test_the_words_of_each_piece_in_fairseqs_numbers() -> None:
    lexicon = read_shortlist(GOOD, SHORTLIST, SOURCE, TARGET)
    found = [each.tolist() for each in lexicon.links()]
    # <unk> → x; a → y, z; b → </s>
    assert [*zip(*found, strict=True)] == [(3, 4), (4, 5), (4, 6), (5, 2)]
    assert lexicon.always.tolist() == [2, 3, 4]


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "is not a shortlist of Marian"),
        (GOOD[:40], "is not a shortlist of Marian"),
        (shortlist([0, 0, 1, 3, 4], [2, 3, 4, 0], mark=1), "is not a shortlist of Marian"),
        (GOOD[:-4], "has 100 bytes, but its header says 104"),
        (GOOD + b"\0", "has 105 bytes, but its header says 104"),
        (struct.pack("<6Q", MARK, 1, 3, 2, 1 << 60, 1 << 61), "has 48 bytes, but its header says"),
        (shortlist([0, 1, 3, 4], [2, 3, 4, 0]), "does not fit the vocabularies of 4 and 5 symbols"),
        (shortlist([0, 0, 1, 3, 4], [2, 3, 5, 0]), "does not fit the vocabularies of 4 and 5 symbols"),
        (shortlist([0, 0, 1, 3, 4], [2, 3, 4, 0], frequent=6), "does not fit the vocabularies of 4 and 5 symbols"),
        (shortlist([0, 3, 1, 3, 4], [2, 3, 4, 0]), "its offsets are not ascending"),
        (shortlist([1, 1, 1, 3, 4], [2, 3, 4, 0]), "its offsets are not ascending"),
        (shortlist([0, 0, 1, 3, 1 << 62], [2, 3, 4, 0]), "its offsets are not ascending"),
    ],
)
def test_a_damaged_shortlist_is_one_line(data: bytes, message: str) -> None:
    with pytest.raises(InputError, match=rf"lex.s2t.bin: {re.escape(message)}.*remove it to import") as caught:
        read_shortlist(data, SHORTLIST, SOURCE, TARGET)
    assert "\n" not in str(caught.value)
