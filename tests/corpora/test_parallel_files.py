"""Two files, loose or in a zip: line N of one always meets line N of the other, or it is an error."""

import zipfile
from collections import Counter
from pathlib import Path

import pytest

from fairseq_ext.corpora.parallel_files import moses_stems, read_moses_zip, read_parallel_files
from fairseq_ext.corpora.text_files import Pair
from fairseq_ext.inputs.errors import InputError

LANGS = ("en", "pl")
ODD = "one\rtwo\u2028three\u0085four\x0bfive\x0c"


def write_files(folder: Path, source: bytes, target: bytes) -> Path:
    (folder / "x.en").write_bytes(source)
    (folder / "x.pl").write_bytes(target)
    return folder


def write_zip(folder: Path, source: bytes, target: bytes) -> Path:
    with zipfile.ZipFile(folder / "x.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("README", "Corpus of\nseveral lines\n")
        archive.writestr("Books.en-pl.ids", "1\n")
        archive.writestr("Books.en-pl.pl", target)
        archive.writestr("Books.en-pl.en", source)
    return folder


def read(folder: Path, policy: str = "fail") -> tuple[list[Pair], Counter[str]]:
    tally: Counter[str] = Counter()
    if (folder / "x.zip").exists():
        return list(read_moses_zip(folder / "x.zip", LANGS, policy, tally)), tally
    return list(read_parallel_files((folder / "x.en", folder / "x.pl"), policy, tally)), tally


WRITERS = pytest.mark.parametrize("write", [write_files, write_zip])


@WRITERS
def test_lines_do_not_slip(tmp_path: Path, write: object) -> None:
    assert callable(write)
    pairs, tally = read(write(tmp_path, f"a\n{ODD}\n\nd\0d".encode(), "\ufeffb\nc\r\n\n\n".encode()))
    assert pairs == [("a", "b"), ("one two three four five", "c"), ("", ""), ("d d", "")]
    assert tally == {"lines": 4, "byte_order_marks": 1, "line_separators": 1, "control_characters": 1}


@WRITERS
@pytest.mark.parametrize(
    ("source", "target", "long", "line", "short"),
    [(b"a\nb\nc\n", b"a\n", "en", 2, "pl"), (b"a\n", b"a\nb\n", "pl", 2, "en"), (b"", b"a\n", "pl", 1, "en")],
)
def test_unequal_sides_are_an_error(
    tmp_path: Path, write: object, source: bytes, target: bytes, long: str, line: int, short: str
) -> None:
    assert callable(write)
    message = rf"\.{long}, line {line}: has no counterpart in .*\.{short}, which ends after line {line - 1};"
    with pytest.raises(InputError, match=message):
        read(write(tmp_path, source, target))


@WRITERS
def test_empty_files_are_an_error(tmp_path: Path, write: object) -> None:
    assert callable(write)
    with pytest.raises(InputError, match=r"\.en: is empty"):
        read(write(tmp_path, b"", b""))


@WRITERS
def test_bad_utf8_drops_the_pair_once(tmp_path: Path, write: object) -> None:
    assert callable(write)
    folder = write(tmp_path, b"a\nb\xff\nc\nd\xff\ne\n", b"1\n2\n3\xff\n4\xff\n5\n")
    pairs, tally = read(folder, "drop")
    assert pairs == [("a", "1"), ("e", "5")]
    assert tally == {"lines": 5, "bad_utf8_dropped": 3}
    pairs, tally = read(folder, "replace")
    assert pairs == [("a", "1"), ("b\ufffd", "2"), ("c", "3\ufffd"), ("d\ufffd", "4\ufffd"), ("e", "5")]
    assert tally == {"lines": 5, "bad_utf8_replaced": 4}
    with pytest.raises(InputError, match=r"\.en, line 2: byte 2 is not UTF-8"):
        read(folder)


def test_zip_of_several_corpora_is_read_in_order_of_names(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "x.zip", "w") as archive:
        for name in ("b/train", "a"):
            archive.writestr(f"{name}.en", f"{name} one\n")
            archive.writestr(f"{name}.pl", f"{name} jeden\n")
    assert moses_stems(tmp_path / "x.zip", LANGS) == ["a", "b/train"]
    assert read(tmp_path)[0] == [("a one", "a jeden"), ("b/train one", "b/train jeden")]


@pytest.mark.parametrize(("file", "other"), [("b.en", "b.pl"), ("sub/a.pl", "sub/a.en")])
def test_zip_without_a_files_other_side_is_an_error(tmp_path: Path, file: str, other: str) -> None:
    with zipfile.ZipFile(tmp_path / "x.zip", "w") as archive:
        for name in ("a.en", "a.pl", "__MACOSX/._a.en", file):
            archive.writestr(name, "text\n")
    for take in (read, lambda folder: moses_stems(folder / "x.zip", LANGS)):
        with pytest.raises(InputError, match=rf"x\.zip/{file}: its other side {other} is missing"):
            take(tmp_path)


def test_hidden_files_of_a_zip_do_not_matter(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "x.zip", "w") as archive:
        for name in ("__MACOSX/._a.en", "__MACOSX/._a.pl", "a.en", "a.pl", ".b.en"):
            archive.writestr(name, b"\xff" if "." in name[:12] else b"text\n")
    assert moses_stems(tmp_path / "x.zip", LANGS) == ["a"]


def test_zip_of_catalogues_may_hold_anything_in_one_language(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "x.zip", "w") as archive:
        archive.writestr("help.en", "text\n")
    assert moses_stems(tmp_path / "x.zip", LANGS) == []


def test_damaged_zips_are_errors(tmp_path: Path) -> None:
    text = "".join(f"{number} {number**7}\n" for number in range(5000)).encode()
    path = write_zip(tmp_path, text, text) / "x.zip"
    whole = path.read_bytes()
    assert len(read(tmp_path)[0]) == 5000
    for cut in (0, 1, len(whole) // 2, len(whole) - 30, len(whole) - 1):
        path.write_bytes(whole[:cut])
        with pytest.raises(InputError, match=r"x\.zip: damaged or cut off \("):
            read(tmp_path)
    for place in range(200, len(whole) - 400, len(whole) // 15):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 4]) + whole[place + 1 :])
        with pytest.raises(InputError, match=r"x\.zip.*(damaged|not UTF-8|counterpart)"):
            read(tmp_path)


def test_stored_text_that_changed_fails_its_checksum(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "x.zip", "w", zipfile.ZIP_STORED) as archive:
        archive.writestr("a.en", "an unmistakable sentence\n")
        archive.writestr("a.pl", "zdanie\n")
    path = tmp_path / "x.zip"
    path.write_bytes(path.read_bytes().replace(b"unmistakable", b"unmistakeble"))
    with pytest.raises(InputError, match=r"x\.zip/a\.en: damaged or cut off after line \d \(Bad CRC-32"):
        read(tmp_path)


def test_zip_without_the_languages_is_an_error(tmp_path: Path) -> None:
    path = write_zip(tmp_path, b"a\n", b"b\n") / "x.zip"
    with pytest.raises(InputError, match=r"x\.zip: holds no files NAME\.en and NAME\.de"):
        list(read_moses_zip(path, ("en", "de"), "fail", Counter()))
