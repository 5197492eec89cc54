"""Which form an entry is of, which files it stands for, and what a folder of corpora holds."""

import gzip
import tarfile
import zipfile
from collections import Counter
from pathlib import Path

import polib
import pytest

from fairseq_ext.corpora.entries import (
    BILINGUAL,
    Form,
    check_entries,
    entry_form,
    find_corpora,
    folder_entries,
    read_entry,
)
from fairseq_ext.corpora.files import open_binary
from fairseq_ext.inputs.errors import InputError

LANGS = ("en", "pl")
TMX = '<tmx><body><tu><tuv lang="en"><seg>one</seg></tuv><tuv lang="pl"><seg>jeden</seg></tuv></tu></body></tmx>'
XLIFF = (
    '<xliff version="1.2"><file source-language="en" target-language="pl"><body><trans-unit id="1"><source>one</source>'
    "<target>jeden</target></trans-unit></body></file></xliff>"
)
JSONL = '{"translation": {"en": "one", "pl": "jeden"}}\n'
PO = 'msgid ""\nmsgstr "Content-Type: text/plain; charset=utf-8\\n"\n\nmsgid "one"\nmsgstr "jeden"\n'


def make(folder: Path, name: str) -> str:
    """Write a corpus of one pair in the form that the name says, and return its entry."""
    path = folder / name
    if "{lang}" in name:
        for lang, text in zip(LANGS, ("one", "jeden"), strict=True):
            side = Path(str(path).replace("{lang}", lang))
            side.parent.mkdir(exist_ok=True)
            with open_binary(side, "wb") as file:
                file.write(f"{text}\n".encode())
    elif Path(name.removesuffix(".gz").removesuffix(".zst")).suffix in BILINGUAL:
        text = {".tsv": "one\tjeden\n", ".jsonl": JSONL, ".tmx": TMX, ".xlf": XLIFF}
        with open_binary(path, "wb") as file:
            file.write(text[f".{name.split('.')[1]}"].encode())
    elif name.endswith(".po"):
        path.write_text(PO)
    elif name.endswith(".mo"):
        polib.pofile(PO).save_as_mofile(str(path))
    elif name.endswith((".whl", "catalogues.zip")):
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("app/pl/LC_MESSAGES/x.po", PO)
    elif "zip" in name:
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("X.en-pl.en", "one\n")
            archive.writestr("X.en-pl.pl", "jeden\n")
    elif ".tar" in name:
        make(folder, "pl.po")
        with tarfile.open(path, "w") as tar:
            tar.add(folder / "pl.po", "pl.po")
    else:
        path.mkdir()
        make(path, "pl.po")
    return str(path)


NAMES = {
    "law.{lang}": Form.PARALLEL_FILES,
    "{lang}/law.{lang}.gz": Form.PARALLEL_FILES,
    "x.tsv": Form.TSV,
    "x.tsv.zst": Form.TSV,
    "x.jsonl": Form.JSONL,
    "x.tmx": Form.MEMORY,
    "x.xlf.zst": Form.MEMORY,
    "en-pl.txt.zip": Form.MOSES_ZIP,
    "zipped": Form.MOSES_ZIP,
    "catalogues.zip": Form.CATALOGUES,
    "x-1.0.whl": Form.CATALOGUES,
    "x.po": Form.CATALOGUES,
    "x.mo": Form.CATALOGUES,
    "x.tar": Form.CATALOGUES,
    "folder": Form.CATALOGUES,
}


@pytest.mark.parametrize(("name", "form"), NAMES.items())
def test_every_form_is_told_and_read(tmp_path: Path, name: str, form: Form) -> None:
    entry, tally = make(tmp_path, name), Counter[str]()
    assert entry_form(entry, LANGS) == form
    assert list(read_entry(entry, LANGS, "fail", tally, tmp_path / "downloads")) == [("one", "jeden")]
    assert tally["lines"] == 1
    assert not (tmp_path / "downloads").exists()


def test_entries_stand_for_paths_in_order_of_domains(tmp_path: Path) -> None:
    law, med, shop = make(tmp_path, "law.{lang}.gz"), make(tmp_path, "med.tsv"), make(tmp_path, "shop")
    domains = {"shop": ["a==1", shop], "law": [law, "opus:EUbookshop/v2", med]}
    names = [path.name for path in check_entries(domains, LANGS)]
    assert names == ["law.en.gz", "law.pl.gz", "med.tsv", "shop"]


def test_folder_gives_its_domains(tmp_path: Path) -> None:
    for name in ("med.{lang}", "law.{lang}.zst", "it.{lang}.gz", ".law.{lang}"):
        make(tmp_path, name)
    (tmp_path / "README.md").write_text("other files do not matter")
    entries = folder_entries(tmp_path, LANGS)
    expected = {"it": "it.{lang}.gz", "law": "law.{lang}.zst", "med": "med.{lang}"}
    assert entries == {name: [str(tmp_path / file)] for name, file in expected.items()}
    assert list(entries) == sorted(entries)
    assert len(check_entries(entries, LANGS)) == 6


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (["law.en.gz"], r"law\.en\.gz: its other side law\.pl is missing"),
        (["law.en", "law.pl.gz"], r"law\.en and law\.pl\.gz have different suffixes"),
        (["law.en", "law.pl", "law.en.xz"], r"law\.en\.xz: law\.en also exists"),
        (["law.de"], r"has no files DOMAIN\.en and DOMAIN\.pl"),
    ],
)
def test_unclear_folders_are_errors(tmp_path: Path, names: list[str], message: str) -> None:
    for name in names:
        (tmp_path / name).write_bytes(b"x\n")
    with pytest.raises(InputError, match=message):
        folder_entries(tmp_path, LANGS)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two domains of text files, in German and English."""
    for domain, count in (("law", 3), ("med", 5)):
        for lang in ("de", "en"):
            (tmp_path / f"{domain}.{lang}").write_text("ein paar Wörter\n" * count, encoding="utf-8")
    return tmp_path


def test_text_files_are_found_and_counted(folder: Path) -> None:
    (folder / "README").write_text("x\n")
    corpora = find_corpora(folder)
    assert corpora.langs == ("en", "de")
    assert corpora.pairs == {"law": 3, "med": 5}
    assert (corpora.total, corpora.words) == (8, 3.0)
    assert not corpora.entries  # the folder says it all


def test_languages_can_be_chosen(folder: Path) -> None:
    assert find_corpora(folder, source="de").langs == ("de", "en")
    assert find_corpora(folder, target="en").langs == ("de", "en")
    (folder / "law.fr").write_text("x\n")
    with pytest.raises(InputError, match="has files in de, en, fr"):
        find_corpora(folder)
    assert find_corpora(folder, "en", "de").langs == ("en", "de")


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


@pytest.mark.parametrize(
    ("change", "place"),
    [
        ({"law.de": None}, "law.en"),
        ({"law.de": "a\nb\n"}, "law.en, line 3"),
        ({"law.de": None, "med.de": None}, "only en files"),
        ({"law.tsv": "a\n"}, "law.tsv, line 1"),
    ],
)
def test_what_is_no_corpus_is_refused(folder: Path, change: dict[str, str | None], place: str) -> None:
    for name, text in change.items():
        (folder / name).unlink(missing_ok=True)
        if text is not None:
            (folder / name).write_text(text)
    with pytest.raises(InputError, match=place):
        find_corpora(folder)
