"""Blocks: any of them can be read alone, and together they are the corpus."""

from pathlib import Path

import pytest

from fairseq_ext.base.errors import InputError
from fairseq_ext.text import blocks
from fairseq_ext.text.blocks import index_path, load_index, read_block, write_corpus
from fairseq_ext.text.text_files import Pair

LANGS = ("en", "pl")
PAIRS = [Pair("ż" * (number % 5), f"target {number}") for number in range(9)] + [Pair("", ""), Pair("a", "")]


def write(folder: Path, pairs: list[Pair]) -> Path:
    write_corpus(folder, "law", LANGS, pairs, {"lines": len(pairs), "byte_order_marks": 0})
    return folder


# Bytes, line feeds included: 20 | 16, 4 | 16 | 5 | 40 | 4, 4, 4 | 4.
LONG = [Pair("ż" * 4, "x" * 10), Pair("x" * 14, ""), Pair("x", "y"), Pair("x" * 14, ""), Pair("x", "yy")]
LONG += [Pair("x" * 38, ""), *[Pair("a", "b")] * 4]


@pytest.mark.parametrize(
    ("limits", "pairs", "first_pairs"),
    [
        *(((size, 1000), PAIRS, [*range(0, len(PAIRS), size)]) for size in (1, 4, 11, 1000)),
        ((3, 20), LONG, [0, 1, 3, 4, 5, 6, 9]),
    ],
)
def test_blocks_make_up_the_corpus(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limits: tuple[int, int], pairs: list[Pair], first_pairs: list[int]
) -> None:
    monkeypatch.setattr(blocks, "BLOCK_PAIRS", limits[0])
    monkeypatch.setattr(blocks, "BLOCK_BYTES", limits[1])
    write(tmp_path, pairs)
    index = load_index(tmp_path, "law")
    assert index["tally"] == {"lines": len(pairs)}
    assert index["first_pairs"] == first_pairs
    read = [read_block(tmp_path, "law", LANGS, number) for number in range(len(first_pairs))]
    assert [pair for block in read for pair in block] == pairs


def test_files_of_another_import_are_refused(tmp_path: Path) -> None:
    write(tmp_path, PAIRS)
    with (tmp_path / "law.pl").open("ab") as file:
        file.write(b"one more\n")
    with pytest.raises(InputError, match=r"law\.pl: "):
        read_block(tmp_path, "law", LANGS, 0)
    for text in ("[]", '{"block": 5}'):
        index_path(tmp_path, "law").write_text(text)
        with pytest.raises(InputError, match=r"law\.index\.json: .*again"):
            load_index(tmp_path, "law")
