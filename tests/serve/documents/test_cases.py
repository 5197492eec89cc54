"""Files made after public reports of what goes wrong with such files: filled, they are whole, and all else stays."""

import io
import re
import shutil
import subprocess
from collections import Counter
from pathlib import Path
from xml.etree import ElementTree

import pytest

from fairseq_ext.base.errors import InputError
from fairseq_ext.text.gettext_entries import PoFile
from fairseq_ext.text.placeholders import dialect_of, keeps
from tests.real_corpora import ROOT
from tests.serve.documents.stand_in import opened, shout

FOLDER = ROOT.parent / "cases" / "documents"
# Files that are refused, and what is said of them.
REFUSED = {
    "html_lang_fr.html": "lang is 'fr'",
    "po_template.pot": "msginit",
    "tmx_ctrl.tmx": "invalid character number",
    "tmx_utf16_lie.tmx": "declares the encoding UTF-16",
}
# Files with nothing to fill.
DONE = {"po_empty.po", "po_header_only.po", "tmx_srclang_other.tmx", "xlf_empty_source.xlf"}
DONE |= {"xlf_target_equals_source.xlf"}
OTHERS = {"INDEX.md", "srv_requests.sh", "srv_requests.expected.md", "terms.tsv"}  # tested elsewhere
NEW = r"<((?:\w+:)?)target\b(?:[^<>/]*>.*?</\1target>|[^<>]*/>)|<tuv [^<>]*><prop type=\"x-machine.*?</tuv>"
ATTRIBUTES = r' (?:target-language|trgLang|state|subState|LANG|(?:xml:)?lang)="[^"]*"'


def decoded(data: bytes) -> str:
    utf_16 = data.startswith(b"\xff\xfe") or data[1:2] == b"\0"
    try:
        return data.decode("utf-16-le" if utf_16 else "utf-8")
    except UnicodeDecodeError:
        return data.decode("latin-1")


@pytest.mark.parametrize("name", sorted({path.name for path in FOLDER.glob("*")} - OTHERS))
def test_a_file_is_filled_or_refused(name: str) -> None:
    path, file = FOLDER / name, io.BytesIO()
    found = opened(path)
    if name in REFUSED:
        with pytest.raises(InputError, match=REFUSED[name]):
            list(found.texts())
        return
    found.write([shout(text) for text, _ in found.texts()], file)
    before, after = decoded(path.read_bytes()), decoded(file.getvalue())
    assert (found.filled == 0, after == before) == (name in DONE, name in DONE)
    if name in DONE:
        return
    if path.suffix == ".po":
        check_catalogue(path, file.getvalue())
    elif before.lstrip("\ufeff").startswith("<?xml") and "html" not in path.suffix:
        ElementTree.fromstring(re.sub("(?s)<!DOCTYPE.*?]>", "", after).replace("&prod;", ""))
        own = [re.sub(ATTRIBUTES, "", re.sub(NEW, "", each, flags=re.DOTALL)) for each in (before, after)]
        assert "".join(own[0].split()) == "".join(own[1].split())
    elif "htm" in path.suffix.lower() and name != "html_broken.html":
        tags = [Counter(re.findall(r"<[^>]*>", re.sub(ATTRIBUTES, "", each))) for each in (before, after)]
        assert tags[0] == tags[1]


def check_catalogue(path: Path, data: bytes) -> None:
    """Check that messages keep their placeholders, that they alone are new, and that gettext agrees."""
    before, after = (PoFile.read(each).entries for each in (path.read_bytes(), data))
    for one, other in zip(before, after, strict=True):
        assert one.text[one.begin : one.translation] == other.text[other.begin : other.translation]
        assert set(one.content.flags) | {"fuzzy"} == set(other.content.flags) | {"fuzzy"}
        dialect = dialect_of(one.content.flags)
        if other.content.msgid and not other.content.msgid_plural:
            assert keeps(other.content.msgid, other.content.msgstr, dialect) or one.text == other.text
    if shutil.which("msgfmt") and b"\n" in data and accepts(path.read_bytes()):  # gettext's lines end so
        cleared = subprocess.run(["msgattrib", "--clear-fuzzy"], input=data, capture_output=True, check=True).stdout
        assert accepts(cleared)


def accepts(data: bytes) -> bool:
    return subprocess.run(["msgfmt", "-c", "-o", "/dev/null", "-"], input=data, capture_output=True).returncode == 0
