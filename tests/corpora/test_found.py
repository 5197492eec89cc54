"""What lies in a folder: found by names, compressed or not, and refused in one line where it is not clear."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from fairseq_ext.corpora.entries import find_corpora
from fairseq_ext.inputs.errors import InputError

TMX = """<?xml version="1.0" encoding="utf-8"?>
<tmx version="1.4"><header creationtool="x" creationtoolversion="1" segtype="sentence" o-tmf="x" adminlang="en"
srclang="en" datatype="plaintext"/><body>
<tu><tuv xml:lang="en"><seg>one two</seg></tuv><tuv xml:lang="de"><seg>eins zwei</seg></tuv></tu>
<tu><tuv xml:lang="en"><seg>three</seg></tuv><tuv xml:lang="de"><seg>drei</seg></tuv></tu>
</body></tmx>
"""


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
    with pytest.raises(InputError, match="has files in de, en, fr; choose two by --source and --target"):
        find_corpora(folder)
    assert find_corpora(folder, "en", "de").langs == ("en", "de")


def test_tables_and_memories_join_the_text_of_their_domain(folder: Path) -> None:
    (folder / "law.tsv").write_text("a\tb c\n" * 4)
    (folder / "talk.tmx.gz").write_bytes(gzip.compress(TMX.encode()))
    corpora = find_corpora(folder)
    assert corpora.pairs == {"law": 7, "med": 5, "talk": 2}
    assert corpora.words == pytest.approx((8 * 3 + 4 * 2 + 2 + 1) / 14)
    assert corpora.entries == {
        "law": [str(folder / "law.{lang}"), str(folder / "law.tsv")],
        "med": [str(folder / "med.{lang}")],
        "talk": [str(folder / "talk.tmx.gz")],
    }


@pytest.mark.parametrize(
    ("change", "place"),
    [
        ({"law.de": None}, "law.en"),
        ({"law.de": "a\nb\n"}, "law.en, line 3"),
        ({"law.de": None, "med.de": None}, "in en alone"),
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
