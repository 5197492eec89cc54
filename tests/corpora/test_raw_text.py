"""Lines as corpora hold them: what is mended, what is refused, and that lines never slip."""

import io
from collections import Counter
from pathlib import Path

import pytest

from fairseq_ext.corpora import raw_text
from fairseq_ext.corpora.files import open_binary
from fairseq_ext.corpora.raw_text import ON_BAD_UTF8, canonical, decode_lines, stream_canonical_lines
from fairseq_ext.inputs.errors import InputError


def read(folder: Path, data: bytes, policy: str = "fail") -> tuple[list[str | None], dict[str, int]]:
    (folder / "x.en").write_bytes(data)
    tally: Counter[str] = Counter()
    return list(stream_canonical_lines(folder / "x.en", policy, tally)), dict(tally)


@pytest.mark.parametrize(
    ("raw", "line", "counted"),
    [
        ("plain text", "plain text", None),
        ("", "", None),
        ("zażółć gęślą jaźń – „tak”", "zażółć gęślą jaźń – „tak”", None),
        (" two  spaces\tand tabs ", "two spaces and tabs", None),
        ("no\u00a0break\u3000wide\u2009thin", "no break wide thin", None),
        ("windows\r", "windows", None),
        ("soft\u00adhyphen, 👍\U000e0020", "soft\u00adhyphen, 👍\U000e0020", None),
        ("a\0b\x01c\x7fd\x9fe", "a b c d e", "control_characters"),
        ("\0", "", "control_characters"),
        ("a\rb", "a b", "line_separators"),
        ("a\rb\r", "a b", "line_separators"),
        ("a\u2028b", "a b", "line_separators"),
        ("a\u2029b", "a b", "line_separators"),
        ("a\u0085b", "a b", "line_separators"),
        ("a\x0bb\x0cc\x1cd\x1de\x1ef", "a b c d e f", "line_separators"),
        ("a\x1fb", "a b", "control_characters"),
        ("\ufeffa", "a", "byte_order_marks"),
        ("a\ufeffb \ufeff \ufeff", "ab", "byte_order_marks"),
        (" \ufeff", "", "byte_order_marks"),
    ],
)
def test_lines_become_canonical(tmp_path: Path, raw: str, line: str, counted: str | None) -> None:
    lines, tally = read(tmp_path, f"first\n{raw}\nlast\n".encode())
    assert lines == ["first", line, "last"]
    assert tally == ({counted: 1} if counted else {})


def test_canonical_text_has_no_white_space_but_single_spaces_and_no_control() -> None:
    for code in range(0x11000):
        text = canonical(f" a{chr(code)}{chr(code)}b ", Counter())
        assert text == " ".join(text.split())
        assert not any(ord(char) < 32 or 127 <= ord(char) < 160 for char in text), hex(code)
        assert canonical(text, Counter()) == text


@pytest.mark.parametrize("chunk_bytes", [1, 2, 3, 7, 1000])
def test_chunks_make_no_difference(monkeypatch: pytest.MonkeyPatch, chunk_bytes: int) -> None:
    data = "\ufeffäöü\n\n\u2028x\nlast".encode()
    chunks = [data[start : start + chunk_bytes] for start in range(0, len(data), chunk_bytes)]
    assert list(decode_lines(chunks, "x", "fail", Counter())) == ["äöü", "", "\u2028x", "last"]
    assert list(decode_lines([*chunks, b"\n"], "x", "fail", Counter())) == ["äöü", "", "\u2028x", "last"]


def test_byte_order_marks_go_wherever_they_are(tmp_path: Path) -> None:
    # Files joined by cat have them at the start of some line, doubly encoded ones twice.
    lines, tally = read(tmp_path, "\ufeff\ufeffone\n\ufefftwo\nth\ufeffree\n".encode())
    assert lines == ["one", "two", "three"]
    assert tally == {"byte_order_marks": 4}


@pytest.mark.parametrize("data", [b"one\rtwo\rthree\r", b"one\rtwo", b"one\r\r", b"\xef\xbb\xbfone\rtwo\r"])
def test_lines_that_end_at_carriage_returns_alone_are_refused(tmp_path: Path, data: bytes) -> None:
    for policy in ON_BAD_UTF8:
        with pytest.raises(InputError, match=r"x\.en: its lines end at carriage returns.*tr '\\r' '\\n'"):
            read(tmp_path, data, policy)


def test_one_line_without_a_line_feed_is_a_line(tmp_path: Path) -> None:
    assert read(tmp_path, b"one\r")[0] == ["one"]
    assert read(tmp_path, b"one\rtwo\n")[0] == ["one two"]


def test_large_file_without_line_feeds_is_told_from_a_long_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(raw_text, "MAX_LINE_BYTES", 1 << 10)
    with pytest.raises(InputError, match="x: its lines end at carriage returns"):
        list(decode_lines([b"one\r", b"two", b"x" * 2000], "x", "fail", Counter()))
    with pytest.raises(InputError, match="x, line 2: is longer"):
        list(decode_lines([b"a\n", b"one\rtwo", b"x" * 2000], "x", "fail", Counter()))


def test_empty_lines_count_and_the_last_line_feed_ends_a_line(tmp_path: Path) -> None:
    assert read(tmp_path, b"\na\n\n")[0] == ["", "a", ""]
    assert read(tmp_path, b"a")[0] == ["a"]
    assert read(tmp_path, b"")[0] == []


BAD = b"\xef\xbb\xbfgood\nc\xf4t\xe9\nok\n\xed\xa0\x80\nend\n"


def test_bad_utf8_stops_with_file_line_and_byte(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"x\.en, line 2: byte 2 is not UTF-8; .*on_bad_utf8 to 'drop'"):
        read(tmp_path, BAD)


def test_bad_utf8_can_be_dropped(tmp_path: Path) -> None:
    assert read(tmp_path, BAD, "drop") == (["good", None, "ok", None, "end"], {"byte_order_marks": 1})


def test_bad_utf8_can_be_replaced(tmp_path: Path) -> None:
    lines, tally = read(tmp_path, BAD, "replace")
    assert lines == ["good", "c\ufffdt\ufffd", "ok", "\ufffd\ufffd\ufffd", "end"]
    assert tally == {"byte_order_marks": 1, "bad_utf8_replaced": 2}


@pytest.mark.parametrize("policy", ["fail", "drop", "replace"])
@pytest.mark.parametrize(
    ("data", "what"),
    [
        ("text\n".encode("utf-16"), "UTF-16; convert it"),
        (b"\x1f\x8b\x08\x00", r"compressed by gzip; end its name in \.gz"),
        (b"\x28\xb5\x2f\xfd\x04", "compressed by zstd"),
        (b"\xfd7zXZ\0\0\4", "compressed by xz"),
        (b"PK\x03\x04", "a zip archive"),
        (b"PK\x03\x04\rx", "a zip archive"),
        (b"\x1f\x8b\x08\rx\n", "compressed by gzip"),
        (b"BZh91AY&SY", r"compressed by bzip2; .*gzip"),
    ],
)
def test_what_is_no_text_is_refused_at_once(tmp_path: Path, policy: str, data: bytes, what: str) -> None:
    with pytest.raises(InputError, match=rf"x\.en: is {what}"):
        read(tmp_path, data, policy)


def test_megabyte_lines_are_lines(tmp_path: Path) -> None:
    long = "ż" * (1 << 19)
    assert read(tmp_path, f"a\n{long}\nb\n{long} \n".encode())[0] == ["a", long, "b", long]


def test_line_without_end_is_refused_before_it_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(raw_text, "MAX_LINE_BYTES", 1 << 20)
    longest = b"x" * (1 << 20)
    lines = decode_lines([b"a\nb\n", longest[:-7], longest[-7:] + b"\nc"], "x", "fail", Counter())
    assert [len(line or "") for line in lines] == [1, 1, 1 << 20, 1]

    file = io.BytesIO(b"a\nb\n" + b"x" * (4 << 20))
    chunks = iter(lambda: file.read(1 << 18), b"")
    with pytest.raises(InputError, match="x, line 3: is longer than 1 MiB"):
        list(decode_lines(chunks, "x", "fail", Counter()))
    assert file.tell() <= (1 << 20) + (1 << 19)
    with pytest.raises(InputError, match="x, line 2: is longer"):
        list(decode_lines([b"a\n", longest, b"x\nb\n"], "x", "fail", Counter()))


@pytest.mark.parametrize("suffix", [".gz", ".zst", ".xz"])
def test_compressed_lines_are_read_and_damage_names_the_line(tmp_path: Path, suffix: str) -> None:
    path, expected = tmp_path / f"x{suffix}", [f"{number} {number**5}" for number in range(30_000)]
    with open_binary(path, "wb") as file:
        file.write("\n".join(expected).encode())
    assert list(stream_canonical_lines(path, "fail", Counter())) == expected
    path.write_bytes(path.read_bytes()[:-2])
    with pytest.raises(InputError, match=r"damaged or cut off after line \d+ "):
        list(stream_canonical_lines(path, "drop", Counter()))
