"""Two columns, no more and no fewer."""

from collections import Counter
from pathlib import Path

import pytest

from fairseq_ext.corpora.compressed import open_binary
from fairseq_ext.corpora.text_files import Pair
from fairseq_ext.corpora.tsv import read_tsv
from fairseq_ext.inputs.errors import InputError


def read(path: Path, data: bytes, policy: str = "fail") -> tuple[list[Pair], Counter[str]]:
    with open_binary(path, "wb") as file:
        file.write(data)
    tally: Counter[str] = Counter()
    return list(read_tsv(path, policy, tally)), tally


@pytest.mark.parametrize("name", ["x.tsv", "x.tsv.gz", "x.tsv.zst", "x.tsv.xz"])
def test_columns_are_source_and_target(tmp_path: Path, name: str) -> None:
    data = '\ufeff a  b\tc\u2028d\r\n"quoted\t\n\tonly target\nlast\0\tline'.encode()
    pairs, tally = read(tmp_path / name, data)
    assert pairs == [("a b", "c d"), ('"quoted', ""), ("", "only target"), ("last", "line")]
    assert tally == {"lines": 4, "byte_order_marks": 1, "line_separators": 1, "control_characters": 1}


@pytest.mark.parametrize(("line", "columns"), [("a", 1), ("", 1), ("a\tb\tc", 3), ("a\tb\t", 3)])
def test_other_numbers_of_columns_are_errors(tmp_path: Path, line: str, columns: int) -> None:
    with pytest.raises(InputError, match=rf"x\.tsv, line 2: has {columns} columns;"):
        read(tmp_path / "x.tsv", f"a\tb\n{line}\nc\td\n".encode())


def test_bad_utf8(tmp_path: Path) -> None:
    data = b"a\tb\nc\xff\td\ne\tf\n"
    with pytest.raises(InputError, match=r"x\.tsv, line 2: byte 2 is not UTF-8"):
        read(tmp_path / "x.tsv", data)
    assert read(tmp_path / "x.tsv", data, "drop") == (
        [("a", "b"), ("e", "f")],
        {"lines": 3, "bad_utf8_dropped": 1},
    )
    assert read(tmp_path / "x.tsv", data, "replace")[0][1] == ("c\ufffd", "d")


def test_empty_file_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"x\.tsv\.gz: is empty"):
        read(tmp_path / "x.tsv.gz", b"")
