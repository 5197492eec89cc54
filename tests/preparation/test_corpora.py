"""Parallel text is read strictly: what cannot be right is an error that names file and line."""

from pathlib import Path

import pytest

from fairseq_ext.errors import InputError
from fairseq_ext.preparation.corpora import Pair, find_domains, read_lines, read_parallel


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


def test_domains_of_a_folder(tmp_path: Path) -> None:
    write(tmp_path, b"a\n", b"a\n")
    assert find_domains(tmp_path, "en", "de") == ["d"]
    (tmp_path / "law.de").write_text("Gesetz\n")
    with pytest.raises(InputError, match=r"law\.de: its other side law\.en is missing"):
        find_domains(tmp_path, "en", "de")
    with pytest.raises(InputError, match=r"holds no files named DOMAIN\.fr"):
        find_domains(tmp_path, "fr", "pl")
    with pytest.raises(InputError, match="not found"):
        find_domains(tmp_path / "nowhere", "en", "de")
