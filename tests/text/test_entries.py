"""Which form an entry is of, which files it stands for, and what a folder of corpora holds."""

import gzip
import io
import tarfile
import zipfile
from collections import Counter
from pathlib import Path

import polib
import pytest

from fairseq_ext.base.errors import InputError
from fairseq_ext.text.entries import Form, check_entries, entry_form, find_corpora, folder_entries, read_entry
from fairseq_ext.text.files import open_binary

LANGS = ("en", "pl")
TMX = '<tmx><body><tu><tuv lang="en"><seg>one</seg></tuv><tuv lang="pl"><seg>jeden</seg></tuv></tu></body></tmx>'
XLIFF = (
    '<xliff version="1.2"><file source-language="en" target-language="pl"><body><trans-unit id="1"><source>one</source>'
    "<target>jeden</target></trans-unit></body></file></xliff>"
)
JSONL = '{"translation": {"en": "one", "pl": "jeden"}}\n'
PO = 'msgid ""\nmsgstr "Content-Type: text/plain; charset=utf-8\\n"\n\nmsgid "one"\nmsgstr "jeden"\n'


def zipped(members: dict[str, bytes]) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return file.getvalue()


def tarred(data: bytes) -> bytes:
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w") as tar:
        info = tarfile.TarInfo("pl.po")
        info.size = len(data)
        tar.addfile(info, io.BytesIO(data))
    return file.getvalue()


MOSES = zipped({"X.en-pl.en": b"one\n", "X.en-pl.pl": b"jeden\n"})
CATALOGUES = zipped({"app/pl/LC_MESSAGES/x.po": PO.encode()})
# By name, the form of a corpus of one pair, and what the file holds before compression; None for files of lines.
CORPORA: dict[str, tuple[Form, bytes | None]] = {
    "law.{lang}": (Form.PARALLEL_FILES, None),
    "{lang}/law.{lang}.gz": (Form.PARALLEL_FILES, None),
    "x.tsv": (Form.TSV, b"one\tjeden\n"),
    "x.tsv.zst": (Form.TSV, b"one\tjeden\n"),
    "x.jsonl": (Form.JSONL, JSONL.encode()),
    "x.tmx": (Form.MEMORY, TMX.encode()),
    "x.xlf.zst": (Form.MEMORY, XLIFF.encode()),
    "en-pl.txt.zip": (Form.MOSES_ZIP, MOSES),
    "zipped": (Form.MOSES_ZIP, MOSES),
    "catalogues.zip": (Form.CATALOGUES, CATALOGUES),
    "x-1.0.whl": (Form.CATALOGUES, CATALOGUES),
    "x.po": (Form.CATALOGUES, PO.encode()),
    "x.mo": (Form.CATALOGUES, polib.pofile(PO).to_binary()),
    "x.tar": (Form.CATALOGUES, tarred(PO.encode())),
    "folder/pl.po": (Form.CATALOGUES, PO.encode()),
}


def make(folder: Path, name: str) -> str:
    """Write a corpus of ``CORPORA``, or one side's lines to each path of another name, and return its entry."""
    data = CORPORA.get(name, (None, None))[1]
    for lang, line in zip(LANGS, (b"one\n", b"jeden\n"), strict=True):
        path = folder / name.replace("{lang}", lang)
        path.parent.mkdir(exist_ok=True)
        with open_binary(path, "wb") as file:
            file.write(data or line)
    return str(folder / name.removesuffix("/pl.po"))


@pytest.mark.parametrize("name", CORPORA)
def test_every_form_is_told_and_read(tmp_path: Path, name: str) -> None:
    entry, tally = make(tmp_path, name), Counter[str]()
    assert entry_form(entry, LANGS) == CORPORA[name][0]
    assert list(read_entry(entry, LANGS, "fail", tally, tmp_path / "downloads")) == [("one", "jeden")]
    assert tally["lines"] == 1
    assert not (tmp_path / "downloads").exists()


def test_folder_gives_its_domains(tmp_path: Path) -> None:
    for name in ("med.{lang}", "law.{lang}.zst", "it.{lang}.gz", ".law.{lang}", "README"):
        make(tmp_path, name)
    found = folder_entries(tmp_path, LANGS)
    expected = {"it": "it.{lang}.gz", "law": "law.{lang}.zst", "med": "med.{lang}"}
    assert found == {name: [str(tmp_path / file)] for name, file in expected.items()}
    domains = {"shop": ["a==1", str(tmp_path)], "law": [*found["it"], "opus:EUbookshop/v2"]}
    assert [path.name for path in check_entries(domains, LANGS)] == ["it.en.gz", "it.pl.gz", tmp_path.name]


@pytest.mark.parametrize(
    ("names", "place"),
    [
        (["law.en.gz"], r"law\.en\.gz: .* law\.pl "),
        (["law.en", "law.pl.gz"], r"law\.en and law\.pl\.gz"),
        (["law.en", "law.pl", "law.en.xz"], r"law\.en\.xz: law\.en "),
        (["law.de"], r"DOMAIN\.en and DOMAIN\.pl"),
    ],
)
def test_unclear_folders_are_errors(tmp_path: Path, names: list[str], place: str) -> None:
    for name in names:
        (tmp_path / name).write_bytes(b"x\n")
    with pytest.raises(InputError, match=place):
        folder_entries(tmp_path, LANGS)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two domains of text files, in German and English."""
    for domain, count in (("law", 3), ("med", 5)):
        for lang in ("de", "en"):
            (tmp_path / f"{domain}.{lang}").write_text("ein paar Wörter\n" * count, encoding="utf-8")
    return tmp_path


def test_text_files_are_found_and_languages_can_be_chosen(folder: Path) -> None:
    (folder / "README").write_text("x\n")
    corpora = find_corpora(folder)
    assert corpora.pairs == {"law": 3, "med": 5}
    assert (corpora.langs, corpora.words, corpora.entries) == (("en", "de"), 3.0, {})
    assert find_corpora(folder, source="de").langs == ("de", "en")
    assert find_corpora(folder, target="en").langs == ("de", "en")
    (folder / "law.fr").write_text("x\n")
    with pytest.raises(InputError, match="has files ending in de, en, fr"):
        find_corpora(folder)
    assert find_corpora(folder, "en", "de").langs == ("en", "de")
    for path in (*folder.glob("*.de"), *folder.glob("*.fr")):
        path.unlink()
    with pytest.raises(InputError, match="only en files"):
        find_corpora(folder)


def test_tables_and_memories_join_the_text_of_their_domain(folder: Path) -> None:
    (folder / "law.tsv").write_text("a\tb c\n" * 4)
    (folder / "talk.tsv.gz").write_bytes(gzip.compress(b"one two\teins zwei\nthree\tdrei\n"))
    corpora = find_corpora(folder)
    assert corpora.pairs == {"law": 7, "med": 5, "talk": 2}
    assert corpora.words == pytest.approx((8 * 3 + 4 * 2 + 2 + 1) / 14)
    assert corpora.entries == {
        "law": [str(folder / "law.{lang}"), str(folder / "law.tsv")],
        "med": [str(folder / "med.{lang}")],
        "talk": [str(folder / "talk.tsv.gz")],
    }
