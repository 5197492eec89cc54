"""Gettext import: which entries count, where catalogues are found."""

import struct
import tarfile
import zipfile
from collections import Counter
from pathlib import Path

import polib
import pytest

from fairseq_ext.corpora.gettext_catalogues import find_catalogues, read_catalogues
from fairseq_ext.corpora.text_files import Pair
from fairseq_ext.inputs.errors import InputError

HEADER = 'msgid ""\nmsgstr "Content-Type: text/plain; charset=utf-8\\n"\n\n'
CATALOGUE = (
    HEADER
    + """
#, fuzzy
msgid "Fuzzy"
msgstr "Unsicher"

msgid "%d file"
msgid_plural "%d files"
msgstr[0] "%d Datei"
msgstr[1] "%d Dateien"

msgid "Untranslated"
msgstr ""

#. Default: "The \\"main\\" page"
msgid "label_main_page"
msgstr "Die \\"Haupt\\"seite"

msgid "label_without_text"
msgstr "Etwas"

msgctxt "menu"
msgid "&Open"
msgstr "Ö&ffnen"

msgid "Open"
msgstr "Öffnen"

msgid ""
"A long "
"message<br>here"
msgstr "Eine lange\\nNachricht hier"

msgid "%s: {0}"
msgstr "%s: {0}"

msgid "Name"
msgstr "Name"

msgid "This was never translated by anybody"
msgstr "This was never translated by anybody"

#~ msgid "Obsolete"
#~ msgstr "Veraltet"
"""
)
PAIRS = [
    Pair('The "main" page', 'Die "Haupt"seite'),
    Pair("Open", "Öffnen"),
    Pair("A long message here", "Eine lange Nachricht hier"),
    Pair("Name", "Name"),
]


def write(path: Path, text: str = CATALOGUE) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def read(path: Path) -> tuple[list[Pair], Counter[str]]:
    dropped: Counter[str] = Counter()
    return list(read_catalogues(path, "de", dropped, set())), dropped


def test_only_finished_translations_count(tmp_path: Path) -> None:
    pairs, dropped = read(write(tmp_path / "x.po"))
    assert pairs == PAIRS
    assert dropped == {
        "fuzzy": 1,
        "plural": 1,
        "untranslated": 2,
        "key without text": 1,
        "repeated": 1,
        "no letters": 1,
        "obsolete": 1,
    }


def test_compiled_catalogue_is_read(tmp_path: Path) -> None:
    polib.pofile(CATALOGUE).save_as_mofile(str(tmp_path / "x.mo"))
    pairs, dropped = read(tmp_path / "x.mo")
    # A compiled catalogue has no comments, so keys stay keys; and msgfmt leaves out fuzzy entries.
    assert sorted(pairs) == sorted(PAIRS[1:])
    assert dropped["key without text"] == 2
    assert dropped["fuzzy"] == 0


def test_text_that_is_the_path_of_another_catalogue_is_none(tmp_path: Path) -> None:
    other = write(tmp_path / "other.po")
    with pytest.raises(InputError, match=r"x\.po: cannot be read as a gettext catalogue \(line 1: is neither"):
        read(write(tmp_path / "x.po", str(other)))


def test_bomb_in_a_wheel_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fairseq_ext.corpora.archives.MAX_BYTES", 1 << 20)
    with zipfile.ZipFile(tmp_path / "x.whl", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("de.po", CATALOGUE + "\n" * (2 << 20))
    with pytest.raises(InputError, match=r"x\.whl/de\.po: with it, there is more than 1 MiB to read; take it apart"):
        find_catalogues(tmp_path / "x.whl", "de")


def test_other_encoding_is_honoured(tmp_path: Path) -> None:
    text = CATALOGUE.replace("utf-8", "iso-8859-1")
    (tmp_path / "x.po").write_bytes(text.encode("iso-8859-1"))
    assert read(tmp_path / "x.po")[0] == PAIRS


def test_line_separators_inside_messages_are_white_space(tmp_path: Path) -> None:
    text = HEADER + 'msgid "One\u2028two\x85three"\nmsgstr "Eins\x0czwei\u2029drei"\n'
    assert read(write(tmp_path / "x.po", text))[0] == [Pair("One two three", "Eins zwei drei")]


def test_catalogues_are_found_alike_in_folder_zip_and_tar(tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    names = ["app/locale/de/LC_MESSAGES/b.po", "app/locale/de/LC_MESSAGES/a.po", "mod/locale/de.po"]
    others = ["app/locale/de_AT/LC_MESSAGES/a.po", "mod/locale/fr.po", "mod/locale/made.po"]
    for name in names + others:
        write(tree / name)
    with (
        zipfile.ZipFile(tmp_path / "p.whl", "w") as archive,
        tarfile.open(tmp_path / "p.tar.gz", "w:gz") as tar,
    ):
        for name in others + names:
            archive.write(tree / name, name)
            tar.add(tree / name, name)
    for path in (tree, tmp_path / "p.whl", tmp_path / "p.tar.gz"):
        assert [each.name for each in find_catalogues(path, "de")] == [f"{path}/{name}" for name in sorted(names)]


def test_source_is_preferred_to_its_compiled_form(tmp_path: Path) -> None:
    folder = tmp_path / "de" / "LC_MESSAGES"
    for name in ("both", "source"):
        write(folder / f"{name}.po")
    for name in ("both", "compiled"):
        polib.pofile(CATALOGUE).save_as_mofile(str(folder / f"{name}.mo"))
    names = [Path(each.name).name for each in find_catalogues(tmp_path, "de")]
    assert names == ["both.po", "compiled.mo", "source.po"]


def test_unusable_inputs_are_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"nowhere: not found"):
        find_catalogues(tmp_path / "nowhere", "de")
    write(tmp_path / "de.po")
    with pytest.raises(InputError, match=r"holds no gettext catalogue of 'pl'"):
        find_catalogues(tmp_path, "pl")
    (tmp_path / "x.rar").write_bytes(b"Rar!")
    with pytest.raises(InputError, match=r"x\.rar: is no catalogue"):
        find_catalogues(tmp_path / "x.rar", "de")
    with pytest.raises(InputError, match=r"bad\.po: cannot be read as a gettext catalogue"):
        read(write(tmp_path / "bad.po", HEADER + 'msgid "a"\nmsgid "b"\nnonsense'))


def compiled(folder: Path) -> bytes:
    path = folder / "whole.mo"
    polib.pofile(CATALOGUE).save_as_mofile(str(path))
    return path.read_bytes()


@pytest.mark.parametrize("order", "<>")
def test_compiled_catalogue_cut_off_anywhere_is_an_error(tmp_path: Path, order: str) -> None:
    whole = compiled(tmp_path)
    if order == ">":
        count = struct.unpack_from("<I", whole, 8)[0]
        assert struct.unpack_from("<II", whole, 12) == (28, 28 + 8 * count)
        numbers = struct.unpack_from(f"<{7 + 4 * count}I", whole)
        whole = struct.pack(f">{len(numbers)}I", *numbers) + whole[4 * len(numbers) :]
    (tmp_path / "x.mo").write_bytes(whole)
    assert sorted(read(tmp_path / "x.mo")[0]) == sorted(PAIRS[1:])
    for cut in range(len(whole)):
        (tmp_path / "x.mo").write_bytes(whole[:cut])
        with pytest.raises(InputError, match=r"x\.mo: damaged or cut off \(.*; fetch or copy it again"):
            read(tmp_path / "x.mo")


@pytest.mark.parametrize(
    ("place", "what"),
    [(0, "begins"), (8, "beyond its end"), (12, "beyond its end"), (16, "beyond its end"), (28, "beyond its end")],
)
def test_compiled_catalogue_with_a_bad_header_is_an_error(tmp_path: Path, place: int, what: str) -> None:
    whole = compiled(tmp_path)
    (tmp_path / "x.mo").write_bytes(whole[:place] + b"\xf0\xff\xff\xff" + whole[place + 4 :])
    with pytest.raises(InputError, match=rf"x\.mo: damaged or cut off \(.*{what}"):
        read(tmp_path / "x.mo")


def test_compiled_catalogue_without_messages_is_whole(tmp_path: Path) -> None:
    (tmp_path / "x.mo").write_bytes(struct.pack("<7I", 0x950412DE, 0, 0, 28, 28, 0, 28))
    assert read(tmp_path / "x.mo") == ([], {})


def test_pairs_seen_in_another_catalogue_are_not_repeated(tmp_path: Path) -> None:
    dropped: Counter[str] = Counter()
    path, seen = write(tmp_path / "x.po"), {PAIRS[1], PAIRS[3]}
    assert list(read_catalogues(path, "de", dropped, seen)) == [PAIRS[0], PAIRS[2]]
    assert dropped["repeated"] == 3
    assert seen == set(PAIRS)


@pytest.mark.parametrize("name", ["x.whl", "x.tar.gz"])
def test_cut_off_archives_are_named(tmp_path: Path, name: str) -> None:
    text = CATALOGUE + "".join(f'msgid "{number:x}"\nmsgstr "{number**9}"\n\n' for number in range(2000))
    source = write(tmp_path / "de.po", text)
    if name == "x.whl":
        with zipfile.ZipFile(tmp_path / name, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.write(source, "de.po")
    else:
        with tarfile.open(tmp_path / name, "w:gz") as tar:
            tar.add(source, "de.po")
    whole = (tmp_path / name).read_bytes()
    (tmp_path / name).write_bytes(whole[: len(whole) // 2])
    with pytest.raises(InputError, match=rf"{name}(/de\.po)?: damaged or cut off \("):
        find_catalogues(tmp_path / name, "de")
