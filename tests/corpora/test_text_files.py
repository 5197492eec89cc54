"""Parallel text is read strictly: what cannot be right is an error that names file and line."""

from itertools import islice
from pathlib import Path

import pytest

from fairseq_ext.corpora.text_files import (
    Pair,
    collapse,
    count_lines,
    read_lines,
    read_parallel,
    stream_parallel,
    write_parallel,
)
from fairseq_ext.inputs.errors import InputError


def write(folder: Path, source: bytes, target: bytes) -> tuple[Path, Path]:
    (folder / "d.en").write_bytes(source)
    (folder / "d.de").write_bytes(target)
    return folder / "d.en", folder / "d.de"


def test_only_line_feeds_end_lines(tmp_path: Path) -> None:
    odd = "one\rstill one\u2028still\x0cone\u0085one\n"
    paths = write(tmp_path, odd.encode() + b"two", b"eins\r\nzwei\n")
    assert read_parallel(*paths) == [Pair("one still one still one one", "eins"), Pair("two", "zwei")]


def test_byte_order_mark_is_no_text(tmp_path: Path) -> None:
    paths = write(tmp_path, b"\xef\xbb\xbfone\n", b"eins\n")
    assert read_lines(paths[0]) == ["one"]


def test_pairs_with_an_empty_side_are_dropped_and_counted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    paths = write(tmp_path, b"one\n\nthree\n", b"eins\nzwei\n  \n")
    assert read_parallel(*paths) == [Pair("one", "eins")]
    assert "d.en: 2 of 3 pairs have an empty side" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("source", "target", "message"),
    [
        (b"a\nb\nc\n", b"a\n", r"d\.en, line 2: has no counterpart in .*d\.de, which ends after line 1"),
        (b"a\n", b"a\nb\n", r"d\.de, line 2: has no counterpart in .*d\.en"),
        (b"a\nb\xff\n", b"a\nb\n", r"d\.en, line 2: byte 2 is not UTF-8"),
        (b"", b"a\n", r"d\.en: is empty"),
        (b"\n\n", b"a\nb\n", r"d\.en: is empty"),
        (b"a\n\n", b"\nb\n", r"d\.en, line 1: in no line both sides have text"),
    ],
)
def test_bad_text_names_file_and_line(tmp_path: Path, source: bytes, target: bytes, message: str) -> None:
    with pytest.raises(InputError, match=message):
        read_parallel(*write(tmp_path, source, target))


@pytest.mark.slow
def test_white_space_is_collapsed_whatever_else_there_is() -> None:
    texts = [f"a{chr(number)}b" for number in range(0x110000)]
    texts += ["", " ", "  ", " a b ", "a  b", "\u3000a \u00adb\t"]
    assert [collapse(text) for text in texts] == [" ".join(text.split()) for text in texts]


def test_errors_of_streams_come_when_they_are_reached(tmp_path: Path) -> None:
    pairs = stream_parallel(*write(tmp_path, b"a\n\nb\nc\n", b"a\nb\nb\n"))
    assert list(islice(pairs, 2)) == [Pair("a", "a"), Pair("b", "b")]
    with pytest.raises(InputError, match=r"d\.en, line 4: has no counterpart in .*d\.de, which ends after line 3"):
        next(pairs)


def test_written_pairs_are_read_again(tmp_path: Path) -> None:
    pairs = [Pair("one\x00", "eins"), Pair("two \u0105", "zwei")]
    files = (tmp_path / "new" / "d.en", tmp_path / "new" / "d.de")
    write_parallel(*files, pairs)
    assert list(stream_parallel(*files)) == pairs
    assert files[0].read_bytes() == "one\x00\ntwo \u0105\n".encode()


@pytest.mark.parametrize(
    ("text", "count"), [(b"a", 1), (b"a\n", 1), (b"a\n\nb", 3), (b"a\n\xff\n", 2), (b"a\r\nb\rc\n", 2)]
)
def test_lines_are_counted_as_they_are_read(tmp_path: Path, text: bytes, count: int) -> None:
    path = tmp_path / "x"
    path.write_bytes(text)
    assert count_lines(path) == count
    if b"\xff" not in text:
        assert len(read_lines(path)) == count
