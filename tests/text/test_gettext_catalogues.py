"""Gettext: which entries count, what stays of their markup, where catalogues are found, what is refused."""

import tarfile
import zipfile
from collections import Counter
from pathlib import Path

import polib
import pytest

from fairseq_ext.base.errors import InputError
from fairseq_ext.text.gettext_catalogues import (
    clean_message,
    find_catalogues,
    has_letters,
    is_message_key,
    read_catalogues,
    strip_accelerators,
)
from fairseq_ext.text.raw_text import Markup
from fairseq_ext.text.text_files import Pair

HEADER = 'msgid ""\nmsgstr "Content-Type: text/plain; charset=utf-8\\n"\n\n'
SAME = "This was never translated by anybody"
ENTRIES = [  # lines before, English, German
    ("#, fuzzy\n", "Fuzzy", "Unsicher"),
    ("#= fuzzy\n", "Fuzzy, too", "Auch unsicher"),
    ("", "Untranslated", ""),
    ('#. Default: "The \\"main\\" page"\n', "label_main_page", r"Die \"Haupt\"seite"),
    ("", "label_without_text", "Etwas"),
    ('msgctxt "menu"\n', "&Open", "Ö&ffnen"),
    ("", "Open", "Öffnen"),
    ("", '"\n"A <b>long</b> "\n"message for %s', r"Eine <b>lange</b>\nNachricht für %s"),
    ("", "%s: {0}", "%s: {0}"),
    ("", "Name", "Name"),
    ("", SAME, SAME),
]
CATALOGUE = HEADER + "".join(f'{before}msgid "{en}"\nmsgstr "{de}"\n\n' for before, en, de in ENTRIES)
CATALOGUE += 'msgid "%d file"\nmsgid_plural "%d files"\nmsgstr[0] "%d Datei"\nmsgstr[1] "%d Dateien"\n\n'
CATALOGUE += '#~ msgid "Obsolete"\n#~ msgstr "Veraltet"\n'
MAIN_PAGE = Pair('The "main" page', 'Die "Haupt"seite')
STRIPPED = [MAIN_PAGE, ("Open", "Öffnen"), ("A long message for %s", "Eine lange Nachricht für %s"), ("Name", "Name")]
KEPT = [MAIN_PAGE, ("&Open", "Ö&ffnen"), ("Open", "Öffnen")]
KEPT += [("A <b>long</b> message for %s", "Eine <b>lange</b> Nachricht für %s"), ("Name", "Name")]


def write(path: Path, text: str | bytes = CATALOGUE) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def compiled(text: str = CATALOGUE) -> bytes:
    return polib.pofile(text.replace("#=", "#,")).to_binary()


def read(path: Path, markup: Markup = "strip") -> tuple[list[Pair], Counter[str]]:
    tally: Counter[str] = Counter()
    return list(read_catalogues(path, "de", markup, tally, set())), tally


def test_only_finished_translations_count(tmp_path: Path) -> None:
    left_out = {"obsolete": 1, "fuzzy": 2, "plural": 1, "untranslated": 2, "key_without_text": 1, "no_letters": 1}
    expected = {f"messages_{reason}": count for reason, count in left_out.items()}
    path = write(tmp_path / "x.po")
    assert read(path, "keep") == (KEPT, {"lines": 13, **expected})
    assert read(path) == (STRIPPED, {"lines": 13, **expected, "messages_repeated": 1})

    # A compiled catalogue has no comments, so keys stay keys; and msgfmt leaves out fuzzy entries.
    pairs, tally = read(write(tmp_path / "x.mo", compiled()))
    assert sorted(pairs) == sorted(STRIPPED[1:])
    assert tally["messages_key_without_text"] == 2


@pytest.mark.parametrize(("end", "encoding"), [("\n", "utf-8-sig"), ("\r\n", "iso-8859-1")])
def test_encodings_and_ends_of_lines_do_not_matter(tmp_path: Path, end: str, encoding: str) -> None:
    text = CATALOGUE.replace("\n", end).replace("utf-8", encoding.removesuffix("-sig"))
    assert read(write(tmp_path / "x.po", text.encode(encoding)))[0] == STRIPPED


def test_catalogues_are_found_alike_in_folder_zip_and_tar(tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    names = ["app/locale/de/LC_MESSAGES/b.po", "app/locale/de/LC_MESSAGES/a.po", "mod/locale/de.po", "de.mo"]
    others = ["app/locale/de_AT/LC_MESSAGES/a.po", "mod/locale/fr.po", "app/locale/de/LC_MESSAGES/a.mo"]
    for name in names + others:
        write(tree / name)
    with zipfile.ZipFile(tmp_path / "p.whl", "w") as archive, tarfile.open(tmp_path / "p.tar.gz", "w:gz") as tar:
        for name in others + names:
            archive.write(tree / name, name)
            tar.add(tree / name, name)
    for path in (tree, tmp_path / "p.whl", tmp_path / "p.tar.gz"):
        assert [*find_catalogues(path, "de")] == [f"{path}/{name}" for name in sorted(names)]
        with pytest.raises(InputError, match="pl"):
            find_catalogues(path, "pl")


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("x.po", "/etc/hostname"),
        ("x.po", b"msgid \xff\n"),
        *(("x.mo", compiled()[:place] + b"\xf0\xff\xff\xff" + compiled()[place + 4 :]) for place in (8, 12, 28)),
        *(("x.mo", compiled()[:cut]) for cut in (0, 20, 100, len(compiled()) - 1)),
    ],
)
def test_what_is_no_catalogue_is_refused_at_once(tmp_path: Path, name: str, data: str | bytes) -> None:
    with pytest.raises(
        InputError, match=rf"{name}: (cannot be read|line 1: '/etc/hostname' is no keyword|is not valid utf-8)"
    ):
        read(write(tmp_path / name, data))


@pytest.mark.parametrize(
    ("text", "clean"),
    [
        ("<b>Save</b> all<br/>files", "Save all files"),
        ('See <a href="%(url)s">the manual</a>.', "See the manual."),
        ("clone <source> <dest>", "clone <source> <dest>"),
        ("a &amp; b &lt;c&gt; &nbsp;d &#8230;", "a & b <c> d …"),
        ("&notify all", "&notify all"),
        ("a<!-- b -->c <!-- d <!-- e --> f <!-- g", "ac f <!-- g"),
        (f"a &#{'1' * 5000}; &#55296;", f"a &#{'1' * 5000}; \ufffd"),
        ("soft\u00adhyphen\u200b", "softhyphen"),
    ],
)
def test_markup_goes_and_placeholders_stay(text: str, clean: str) -> None:
    assert clean_message(text) == clean


@pytest.mark.parametrize(
    ("source", "target", "expected"),
    [
        ("&File", "&Datei", ("File", "Datei")),
        ("Clear _All", "_Alles löschen", ("Clear All", "Alles löschen")),
        ("Chil_dren", "Kin_der", ("Children", "Kinder")),
        ("&Open...", "開く(&O)...", ("Open...", "開く...")),
        ("R&D budget", "R&D-Budget", None),
        ("Q&A", "F&A", None),
        ("set log_level now", "log_level jetzt setzen", None),
        ("%(father_name)s", "%(father_name)s", None),
        ("by {user_name}", "von {user_name}", None),
        ("https://a.example/?x=1&y=2", "https://a.example/?x=1&y=2", None),
    ],
)
def test_accelerators_go_and_names_stay(source: str, target: str, expected: tuple[str, str] | None) -> None:
    assert strip_accelerators(source, target) == (expected or (source, target))


def test_keys_and_placeholders_are_told_from_words() -> None:
    assert has_letters("%s files")
    assert not has_letters("%(number)s / {total} – 100%")
    assert not any(map(is_message_key, ("Chil_dren", "_File", "read-only", "add_item now", "save")))
