"""Readers of lines: what is mended, what is refused, and that line N of one side always meets line N of the other."""

import re
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path

import pytest

from fairseq_ext.base.errors import InputError
from fairseq_ext.text import raw_text
from fairseq_ext.text.parallel_files import moses_stems, read_moses_zip, read_parallel_files, read_tsv
from fairseq_ext.text.raw_text import canonical
from fairseq_ext.text.text_files import Pair, collapse, count_lines, read_lines, stream_parallel
from tests.text.test_entries import zipped

LANGS = ("en", "pl")
Read = Callable[[Path, bytes, str, Counter[str]], Iterator[Pair]]


def write(folder: Path, source: bytes, target: bytes, name: str = "d") -> tuple[Path, Path]:
    (folder / f"{name}.en").write_bytes(source)
    (folder / f"{name}.pl").write_bytes(target)
    return folder / f"{name}.en", folder / f"{name}.pl"


def as_files(folder: Path, data: bytes, policy: str, tally: Counter[str]) -> Iterator[Pair]:
    return read_parallel_files(write(folder, data, data, "x"), policy, tally)


def as_tsv(folder: Path, data: bytes, policy: str, tally: Counter[str]) -> Iterator[Pair]:
    lines = [line + b"\t0" for line in data.removesuffix(b"\n").split(b"\n")] if data else []
    (folder / "x.tsv").write_bytes(b"\n".join(lines))
    return read_tsv(folder / "x.tsv", LANGS, policy, tally)


def as_zip(folder: Path, data: bytes, policy: str, tally: Counter[str]) -> Iterator[Pair]:
    (folder / "x.zip").write_bytes(zipped({f"x.{lang}": data for lang in LANGS}))
    return read_moses_zip(folder / "x.zip", LANGS, policy, tally)


READERS = pytest.mark.parametrize("read", [as_files, as_tsv, as_zip])


def sources(read: Read, folder: Path, data: bytes, policy: str = "fail") -> list[str]:
    return [pair.source for pair in read(folder, data, policy, Counter())]


@READERS
@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("one\ntwo", ["one", "two"]),
        ("one\r\ntwo\r\n", ["one", "two"]),
        ("a\rb\x0bc\x0cd\x1ce\x85f\u2028g\u2029h\ntwo\n", ["a b c d e f g h", "two"]),
        ("\ufeff\ufeffone\n\ufefftwo\ufeff three\n", ["one", "two three"]),
        ("\n\none\n\n", ["", "", "one", ""]),
        ("o\0ne\x9f\ntwo\0\n", ["o ne", "two"]),
        ("\u00a0one\u3000\u200btwo \n", ["one \u200btwo"]),
    ],
)
def test_all_readers_see_the_same_lines(tmp_path: Path, read: Read, text: str, lines: list[str]) -> None:
    assert sources(read, tmp_path, text.encode()) == lines
    if read is as_files:
        path = tmp_path / "x.en"
        assert [canonical(line, Counter()) for line in read_lines(path)] == lines
        assert count_lines(path) == len(lines)


@READERS
@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "is empty"),
        (b"one\rtwo\rthree", "its lines end in carriage returns alone"),
        (b"one\na\xc0\x80\n", "line 2: byte 2 is not UTF-8"),
        ("one two\nthree\n".encode("utf-16-be"), "has many null bytes"),
        (b"\x1f\x8b\x08\0one\n", "is compressed by gzip"),
        (b"PK\3\4one\n", "is a zip archive"),
        (b"one\n" + b" " * (1 << 20), "line 2: is longer"),
    ],
)
def test_all_readers_refuse_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, read: Read, data: bytes, reason: str
) -> None:
    monkeypatch.setattr(raw_text, "MAX_LINE_BYTES", 1 << 18)
    with pytest.raises(InputError, match=rf"x\.[^ ]*(: |, ){reason}"):
        sources(read, tmp_path, data)


def test_canonical_text_has_only_single_spaces_and_no_controls() -> None:
    for char in map(chr, range(0x3100)):
        text = f" a{char}{char}b "
        line = canonical(text, Counter())
        assert line == " ".join(line.split()) == canonical(line, Counter())
        assert not re.search("[\x00-\x1f\x7f-\x9f\ufeff]", line)
        assert collapse(text) == " ".join(text.split())


@READERS
def test_bad_utf8_is_dropped_or_replaced(tmp_path: Path, read: Read) -> None:
    data = b"\xef\xbb\xbfgood\nc\xf4t\xe9\nok\n"
    assert sources(read, tmp_path, data, policy="drop") == ["good", "ok"]
    assert sources(read, tmp_path, data, policy="replace") == ["good", "c\ufffdt\ufffd", "ok"]


@pytest.mark.parametrize(
    ("source", "target", "message"),
    [
        (b"a\nb\nc\n", b"a\n", r"d\.en, line 2: .*d\.pl"),
        (b"a\n", b"a\nb\n", r"d\.pl, line 2: .*d\.en"),
        (b"", b"a\n", r"d\.(en: is empty|pl, line 1: )"),
    ],
)
def test_unequal_sides_are_an_error(tmp_path: Path, source: bytes, target: bytes, message: str) -> None:
    paths = write(tmp_path, source, target)
    (tmp_path / "x.zip").write_bytes(zipped({path.name: path.read_bytes() for path in paths}))
    for read in (
        lambda: read_parallel_files(paths, "fail", Counter()),
        lambda: read_moses_zip(tmp_path / "x.zip", LANGS, "fail", Counter()),
        lambda: stream_parallel(*paths),
    ):
        with pytest.raises(InputError, match=message):
            list(read())


@pytest.mark.parametrize("header", ["EN\tpl", "source\ttarget", ""])
def test_the_header_of_a_table_is_no_pair(tmp_path: Path, header: str) -> None:
    rows = [header, "one\tjeden", "source\ttarget"] if header else ["one\tjeden", "source\ttarget"]
    (tmp_path / "x.tsv").write_text("\n".join(rows))
    assert list(read_tsv(tmp_path / "x.tsv", LANGS, "fail", Counter())) == [("one", "jeden"), ("source", "target")]


def test_pairs_without_text_are_kept_by_import_and_dropped_by_the_split(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    paths = write(tmp_path, b"a\n\nc\nd\xff\ne\n", b"1\n2\n \n4\n5\xff\n")
    tally: Counter[str] = Counter()
    assert list(read_parallel_files(paths, "drop", tally)) == [("a", "1"), ("", "2"), ("c", "")]
    assert tally == {"lines": 5, "bad_utf8_dropped": 2}
    pairs = stream_parallel(*write(tmp_path, b"a\n\nc\nd\n", b"1\n2\n \n4\n"))
    assert list(islice(pairs, 2)) == [Pair("a", "1"), Pair("d", "4")]
    assert list(pairs) == []
    assert "d.en: dropped 2 of 4 pairs" in capsys.readouterr().err
    with pytest.raises(InputError, match=r"d\.en: no line has text on both sides"):
        list(stream_parallel(*write(tmp_path, b"a\n\n", b"\nb\n")))


def write_zip(path: Path, *names: str) -> Path:
    path.write_bytes(zipped({name: b"\xff" if "/." in name else f"{name}\n".encode() for name in names}))
    return path


def test_zip_of_several_corpora_is_read_in_order_of_names(tmp_path: Path) -> None:
    names = ["README", "b/train.en", "a.pl", "a.en", "b/train.pl", "__MACOSX/._a.en", ".c.en", "a.ids"]
    path = write_zip(tmp_path / "x.zip", *names)
    assert moses_stems(path, LANGS) == ["a", "b/train"]
    pairs = list(read_moses_zip(path, LANGS, "fail", Counter()))
    assert pairs == [("a.en", "a.pl"), ("b/train.en", "b/train.pl")]
    # A zip of catalogues may hold anything in one language.
    assert moses_stems(write_zip(path, "help.en"), LANGS) == []
    for file, other in (("b.en", "b.pl"), ("sub/a.pl", "sub/a.en")):
        with pytest.raises(InputError, match=rf"x\.zip/{file}: its other side {other} is missing"):
            moses_stems(write_zip(path, "a.en", "a.pl", file), LANGS)
    with pytest.raises(InputError, match=r"x\.zip: has no files"):
        list(read_moses_zip(path, ("en", "de"), "fail", Counter()))
