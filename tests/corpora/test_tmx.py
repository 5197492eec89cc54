"""Translation memories: what is text in them, which languages match, and what is refused."""

import tracemalloc
from collections import Counter
from pathlib import Path

import pytest

from fairseq_ext.corpora import tmx
from fairseq_ext.corpora.compressed import open_binary
from fairseq_ext.corpora.text_files import Pair
from fairseq_ext.corpora.tmx import read_tmx
from fairseq_ext.inputs.errors import InputError

HEAD = '<?xml version="1.0" encoding="{0}"?>\n<!DOCTYPE tmx SYSTEM "tmx14.dtd">\n<tmx version="1.4"><header/><body>\n'
TAIL = "</body></tmx>\n"


def unit(*variants: tuple[str, str], attribute: str = "xml:lang") -> str:
    texts = "".join(f'<tuv {attribute}="{lang}"><prop>x</prop><seg>{text}</seg></tuv>\n' for lang, text in variants)
    return f"<tu><note>n</note>\n{texts}</tu>\n"


def read(
    path: Path, body: str, langs: tuple[str, str] = ("en", "pl"), encoding: str = "utf-8"
) -> tuple[list[Pair], Counter[str]]:
    with open_binary(path, "wb") as file:
        file.write((HEAD.format(encoding) + body + TAIL).encode(encoding))
    tally: Counter[str] = Counter()
    return list(read_tmx(path, langs, tally)), tally


@pytest.mark.parametrize("name", ["x.tmx", "x.tmx.gz", "x.tmx.zst", "x.tmx.xz"])
def test_units_become_pairs(tmp_path: Path, name: str) -> None:
    body = unit(("pl", "jeden"), ("en", "one")) + unit(("en", "two\n  lines"), ("pl", "")) + unit(("en", "alone"))
    pairs, tally = read(tmp_path / name, body)
    assert pairs == [("one", "jeden"), ("two lines", "")]
    assert tally == {"lines": 3, "units_without_translation": 1}


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "iso-8859-2"])
def test_any_encoding_that_the_file_declares(tmp_path: Path, encoding: str) -> None:
    text = HEAD.format(encoding.removesuffix("-sig")) + unit(("en", "yellow"), ("pl", "żółty")) + TAIL
    (tmp_path / "x.tmx").write_bytes(text.encode(encoding))
    assert list(read_tmx(tmp_path / "x.tmx", ("en", "pl"), Counter())) == [("yellow", "żółty")]


@pytest.mark.parametrize(
    ("seg", "text"),
    [
        ('Press <bpt i="1">&lt;b&gt;</bpt>Save<ept i="1">&lt;/b&gt;</ept> now', "Press Save now"),
        ('a <ph x="1">{0} <sub>alt text</sub> more</ph>b', "a b"),
        ("<hi>mark <hi>in</hi></hi> mark", "mark in mark"),
        ("<hi>one<it pos='begin'>\\b</it></hi>two<ut>x</ut>", "onetwo"),
        ("5 &lt; 6 &amp; &#x142; <![CDATA[<raw>]]>", "5 < 6 & ł <raw>"),
        ("a&#x2028;b&#13;c<!-- comment -->d", "a b cd"),
    ],
)
def test_inline_markup_goes_and_its_text_stays(tmp_path: Path, seg: str, text: str) -> None:
    assert read(tmp_path / "x.tmx", unit(("en", seg), ("pl", "x")))[0] == [(text, "x")]


@pytest.mark.parametrize("attribute", ["xml:lang", "lang"])
@pytest.mark.parametrize(
    ("langs", "variants", "pair"),
    [
        (("en", "pl"), [("en-GB", "colour"), ("PL-pl", "barwa")], ("colour", "barwa")),
        (("en", "pl"), [("en-US", "color"), ("EN", "colour"), ("pl", "barwa")], ("colour", "barwa")),
        (("en", "pt_BR"), [("en", "bus"), ("pt-PT", "autocarro"), ("pt-BR", "ônibus")], ("bus", "ônibus")),
        (("pt", "pt-BR"), [("pt-BR", "ônibus"), ("pt-PT", "autocarro")], ("autocarro", "ônibus")),
        (("en", "pl"), [("en", "first"), ("en", "second"), ("pl", "p")], ("first", "p")),
    ],
)
def test_a_language_finds_its_variants(
    tmp_path: Path,
    attribute: str,
    langs: tuple[str, str],
    variants: list[tuple[str, str]],
    pair: tuple[str, str],
) -> None:
    assert read(tmp_path / "x.tmx", unit(*variants, attribute=attribute), langs)[0] == [pair]


def test_absent_language_is_an_error_that_names_those_there(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"x\.tmx: has no unit in both 'en' and 'pl'; its languages: de, eng"):
        read(tmp_path / "x.tmx", unit(("eng", "a"), ("de", "b")))
    with pytest.raises(InputError, match="its languages: none"):
        read(tmp_path / "x.tmx", "")


BOMB = '<!DOCTYPE tmx [<!ENTITY a "ha"><!ENTITY b "&a;&a;&a;&a;"><!ENTITY c "&b;&b;&b;&b;">]>'
EXTERNAL = '<!DOCTYPE tmx [<!ENTITY secret SYSTEM "file:///etc/hostname">]>'
PARAMETER = '<!DOCTYPE tmx [<!ENTITY % p SYSTEM "http://127.0.0.1:9/x">%p;]>'


@pytest.mark.parametrize(("doctype", "entity"), [(BOMB, "a"), (EXTERNAL, "secret"), (PARAMETER, "p")])
def test_declared_entities_are_refused(tmp_path: Path, doctype: str, entity: str) -> None:
    body = unit(("en", "&c;" if entity == "a" else "x"), ("pl", "x"))
    (tmp_path / "x.tmx").write_text(f"{doctype}\n<tmx><body>{body}{TAIL}")
    with pytest.raises(InputError, match=rf"x\.tmx, line 1: the entity '{entity}' is not one of XML's own"):
        list(read_tmx(tmp_path / "x.tmx", ("en", "pl"), Counter()))


def test_entities_are_not_lost_silently(tmp_path: Path) -> None:
    # With an external DTD a parser may skip what that might declare.
    with pytest.raises(InputError, match=r"x\.tmx, line 6: the entity 'nbsp' is not one of XML's own"):
        read(tmp_path / "x.tmx", unit(("en", "a"), ("pl", "b&nbsp;c")))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", r"line 1: malformed XML \(no element found"),
        ("<tmx>\n<body>\n<tu></tuv></body></tmx>", r"line 3: malformed XML \(mismatched tag"),
        ("<tmx>\n<body>\n<tu>", r"line 3: malformed XML \(no element found"),
        ("<tmx>\n\0</tmx>", r"line 2: malformed XML"),
        ("<html>\n<body/></html>", "line 1: <html> begins the file, so it is no TMX"),
        ("just text", "line 1: malformed XML"),
    ],
)
def test_malformed_files_name_the_line(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "x.tmx").write_text(text)
    with pytest.raises(InputError, match=rf"x\.tmx, {message}"):
        list(read_tmx(tmp_path / "x.tmx", ("en", "pl"), Counter()))


@pytest.mark.parametrize("encoding", ["Shift_JIS", "utf-7", "foo", "base64", "idna", "cp037"])
def test_encoding_that_cannot_be_read_is_named(tmp_path: Path, encoding: str) -> None:
    (tmp_path / "x.tmx").write_text(HEAD.format(encoding) + unit(("en", "a"), ("pl", "b")) + TAIL)
    with pytest.raises(InputError, match=rf"x\.tmx, line 1: its encoding '{encoding}' cannot be read.*convert .*UTF-8"):
        list(read_tmx(tmp_path / "x.tmx", ("en", "pl"), Counter()))


def test_bad_utf8_is_malformed(tmp_path: Path) -> None:
    (tmp_path / "x.tmx").write_bytes(b"<tmx>\n<body>\n<tu>\xff</tu></body></tmx>")
    with pytest.raises(InputError, match=r"line 3: malformed XML \(not well-formed"):
        list(read_tmx(tmp_path / "x.tmx", ("en", "pl"), Counter()))


def test_cut_off_compressed_file_names_the_line(tmp_path: Path) -> None:
    body = "".join(unit(("en", f"{number**9}"), ("pl", f"{number**8}")) for number in range(5000))
    read(tmp_path / "x.tmx.gz", body)
    path = tmp_path / "x.tmx.gz"
    path.write_bytes(path.read_bytes()[:-5])
    with pytest.raises(InputError, match=r"x\.tmx\.gz: damaged or cut off after line \d+"):
        list(read_tmx(path, ("en", "pl"), Counter()))


@pytest.mark.slow
def test_memory_does_not_grow_with_the_file(tmp_path: Path) -> None:
    text = "word " * 40
    path = tmp_path / "x.tmx.gz"
    with open_binary(path, "wb") as file:
        file.write(HEAD.format("utf-8").encode())
        for _ in range(10):
            file.write(unit(("en", text), ("pl", text)).encode() * 1000)
        file.write(TAIL.encode())
    tracemalloc.start()
    assert sum(1 for _ in read_tmx(path, ("en", "pl"), Counter())) == 10_000
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 2 << 20, f"{peak} bytes for a file of 5 MB"


def test_unit_without_end_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tmx, "_MAX_UNIT_BYTES", 1 << 20)
    with pytest.raises(InputError, match="no unit ends within 1 MiB"):
        read(tmp_path / "x.tmx", unit(("en", "x" * (3 << 20)), ("pl", "x")))
