"""All readers of lines take the same bytes for the same lines, and refuse the same for the same reason."""

import zipfile
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

from fairseq_ext.corpora.files import open_binary
from fairseq_ext.corpora.parallel_files import read_moses_zip, read_parallel_files, read_tsv
from fairseq_ext.corpora.raw_text import canonical
from fairseq_ext.corpora.text_files import read_lines
from fairseq_ext.inputs.errors import InputError

LANGS = ("en", "pl")


def packed(path: Path, data: bytes) -> Path:
    with open_binary(path, "wb") as file:
        file.write(data)
    return path


def as_lines(folder: Path, data: bytes, suffix: str) -> Iterable[str]:
    return [canonical(line, Counter()) for line in read_lines(packed(folder / f"x.en{suffix}", data))]


def as_files(folder: Path, data: bytes, suffix: str) -> Iterable[str]:
    paths = tuple(packed(folder / f"x.{lang}{suffix}", data) for lang in LANGS)
    return (pair.source for pair in read_parallel_files((paths[0], paths[1]), "fail", Counter()))


def as_tsv(folder: Path, data: bytes, suffix: str) -> Iterable[str]:
    lines = [line + b"\t0" for line in data.removesuffix(b"\n").split(b"\n")] if data else []
    path = packed(folder / f"x.tsv{suffix}", b"\n".join(lines) + b"\n" * data.endswith(b"\n"))
    return (pair.source for pair in read_tsv(path, "fail", Counter()))


def as_zip(folder: Path, data: bytes, suffix: str) -> Iterable[str]:
    methods = {"": zipfile.ZIP_STORED, ".gz": zipfile.ZIP_DEFLATED, ".xz": zipfile.ZIP_LZMA}
    with zipfile.ZipFile(folder / "x.zip", "w", methods.get(suffix, zipfile.ZIP_BZIP2)) as archive:
        for lang in LANGS:
            archive.writestr(f"x.{lang}", data)
    return (pair.source for pair in read_moses_zip(folder / "x.zip", LANGS, "fail", Counter()))


READERS = pytest.mark.parametrize("read", [as_lines, as_files, as_tsv, as_zip])
SUFFIXES = pytest.mark.parametrize("suffix", ["", ".gz", ".xz", ".zst"])
Read = Callable[[Path, bytes, str], Iterable[str]]
ODD = "a\rb\x0bc\x0cd\x1ce\x1df\x1eg\x85h\u2028i\u2029j"


@READERS
@SUFFIXES
@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("one", ["one"]),
        ("one\ntwo", ["one", "two"]),
        ("one\r\ntwo\r\n", ["one", "two"]),
        (f"{ODD}\ntwo\n", ["a b c d e f g h i j", "two"]),
        ("\ufeffone\n\ufefftwo\ufeff three\n", ["one", "two three"]),
        ("\n\none\n\n", ["", "", "one", ""]),
        ("o\0ne\ntwo\0\n", ["o ne", "two"]),
        ("\u00a0one\u3000\u200btwo \n", ["one \u200btwo"]),
    ],
)
def test_lines_are_the_same(tmp_path: Path, read: Read, suffix: str, text: str, lines: list[str]) -> None:
    assert list(read(tmp_path, text.encode(), suffix)) == lines


@READERS
@SUFFIXES
@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "is empty"),
        (b"one\n\xc0\x80\n", "line 2: byte 1 is not UTF-8"),
        (b"one\n\xed\xa0\x80\n", "line 2: byte 1 is not UTF-8"),
        (b"one\n\xf5\x80\x80\x80", "line 2: byte 1 is not UTF-8"),
        (b"one\ntwo\xe2\x80\n", "line 2: byte 4 is not UTF-8"),
        ("one two\nthree\n".encode("utf-16"), "is UTF-16"),
        ("one two\nthree\n".encode("utf-16-le"), "is UTF-16 or no text at all"),
        ("one two\nthree\n".encode("utf-16-be"), "is UTF-16 or no text at all"),
        ("one two\nthree\n".encode("utf-32-be"), "is UTF-16 or no text at all"),
        (bytes(1000), "is UTF-16 or no text at all"),
        (b"one\rtwo\r", "its lines end at carriage returns"),
        (b"\x1f\x8b\x08\0one\n", "is compressed by gzip"),
        (b"PK\3\4one\n", "is a zip archive"),
    ],
)
def test_reasons_are_the_same(tmp_path: Path, read: Read, suffix: str, data: bytes, reason: str) -> None:
    with pytest.raises(InputError, match=rf"x\.[^ ]*(: |, ){reason}"):
        list(read(tmp_path, data, suffix))


@READERS
@SUFFIXES
def test_line_without_end_is_refused_by_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, read: Read, suffix: str
) -> None:
    monkeypatch.setattr("fairseq_ext.corpora.raw_text.MAX_LINE_BYTES", 1 << 20)
    with pytest.raises(InputError, match=r"x\.[^ ]*, line 2: is longer than 1 MiB"):
        list(read(tmp_path, b"one\n" + b" " * (3 << 20), suffix))
