"""TMX and XLIFF: which texts are pairs, what becomes of inline codes, and what is refused."""

from collections import Counter
from pathlib import Path

import pytest

from fairseq_ext.base.errors import InputError
from fairseq_ext.text.files import open_binary
from fairseq_ext.text.raw_text import Markup
from fairseq_ext.text.text_files import Pair
from fairseq_ext.text.translation_memories import read_memory

TMX_HEAD = (
    '<?xml version="1.0" encoding="{0}"?>\n<!DOCTYPE tmx SYSTEM "tmx14.dtd">\n<tmx version="1.4"><header/><body>\n'
)
TMX_TAIL = "</body></tmx>\n"
XLIFF_1 = """<xliff version="1.2" xmlns="urn:oasis:names:tc:xliff:document:1.2">
<file source-language="en-US" target-language="pl" original="x"><body><group>
<trans-unit id="1"><source>one</source><seg-source><mrk mtype="seg">one</mrk></seg-source>
  <target state="translated">jeden</target><alt-trans><target>raz</target></alt-trans></trans-unit>
<trans-unit id="2"><source>two</source></trans-unit>
<trans-unit id="3"><source>three</source><target state="needs-translation">three</target></trans-unit>
<trans-unit id="4" translate="no"><source>X-1</source><target>X-1</target></trans-unit>
<trans-unit id="5"><source>{0}</source><target>{1}</target></trans-unit></group></body></file></xliff>"""
XLIFF_2 = """<xliff version="2.0" srcLang="en" trgLang="pl" xmlns="urn:oasis:names:tc:xliff:document:2.0"><file id="f">
<unit id="1"><segment><source>one</source><target>jeden</target></segment>
<ignorable><source> </source></ignorable>
<segment state="final"><source>two</source><target>dwa</target></segment></unit>
<unit id="2"><segment state="initial"><source>three</source><target>three</target></segment></unit>
<unit id="3"><originalData><data id="d1">&lt;b&gt;</data><data id="d2">&lt;/b&gt;</data></originalData>
<segment><source>{0}</source><target>{1}</target></segment></unit></file></xliff>"""


def unit(*variants: tuple[str, str], attribute: str = "xml:lang") -> str:
    texts = "".join(f'<tuv {attribute}="{lang}"><prop>x</prop><seg>{text}</seg></tuv>\n' for lang, text in variants)
    return f"<tu><note>n</note>\n{texts}</tu>\n"


def tmx(body: str, encoding: str = "utf-8") -> bytes:
    return (TMX_HEAD.format(encoding) + body + TMX_TAIL).encode(encoding.removesuffix("-sig"))


def read(
    path: Path, data: bytes, langs: tuple[str, str] = ("en", "pl"), markup: Markup = "keep"
) -> tuple[list[Pair], Counter[str]]:
    with open_binary(path, "wb") as file:
        file.write(data)
    tally: Counter[str] = Counter()
    return list(read_memory(path, langs, markup, tally)), tally


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "iso-8859-2"])
def test_units_of_tmx_become_pairs(tmp_path: Path, encoding: str) -> None:
    body = unit(("pl", "żółty"), ("en", "yellow")) + unit(("en", "two\n  lines"), ("pl", "")) + unit(("en", "alone"))
    pairs, tally = read(tmp_path / "x.tmx.gz", tmx(body, encoding))
    assert pairs == [("yellow", "żółty"), ("two lines", "")]
    assert tally == {"lines": 3, "units_without_translation": 1}


@pytest.mark.parametrize(("xliff", "lines", "left_out"), [(XLIFF_1, 5, 3), (XLIFF_2, 4, 1)])
def test_finished_units_of_xliff_become_pairs(tmp_path: Path, xliff: str, lines: int, left_out: int) -> None:
    data = xliff.replace("{0}", "last").replace("{1}", "ostatni").encode()
    pairs, tally = read(tmp_path / "x.xlf", data)
    assert pairs[0] == ("one", "jeden")
    assert pairs[-1] == ("last", "ostatni")
    assert len(pairs) == lines - left_out
    assert tally == {"lines": lines, "units_without_translation": left_out}
    # In the other direction a file says the same.
    assert read(tmp_path / "x.xlf", data, ("pl", "en"))[0] == [pair[::-1] for pair in pairs]


@pytest.mark.parametrize(
    ("form", "segment", "kept", "stripped"),  # the form is XLIFF, or TMX if empty
    [
        ("", '<bpt i="1">&lt;b&gt;</bpt>Save<ept i="1">&lt;/b&gt;</ept> now', "<b>Save</b> now", "Save now"),
        ("", 'a <ph x="1">{0}</ph> b<ph x="2"/>', 'a {0} b<ph id="2"/>', "a b"),
        ("", "<hi>mark <hi>in</hi></hi><it pos='begin'>\\b</it>", "mark in\\b", "mark in"),
        ("", "5 &lt; 6 &amp; &#x142; <![CDATA[<raw>]]><!-- no -->", "5 < 6 & ł <raw>", "5 < 6 & ł <raw>"),
        (XLIFF_1, '<g id="1">Save</g> <x id="2"/>', '<g id="1">Save</g> <x id="2"/>', "Save"),
        (XLIFF_1, '<x id="I" equiv-text="{{{{name}}}}"/> <mrk mtype="term">x</mrk>', "{{{{name}}}} x", "x"),
        (XLIFF_1, '<ph id="1">%s</ph> is <bpt id="2">[</bpt>x<ept id="2">]</ept>', "%s is [x]", "is x"),
        (XLIFF_2, '<pc id="1" dataRefStart="d1" dataRefEnd="d2">Save</pc>', "<b>Save</b>", "Save"),
        (XLIFF_2, '<pc id="1">a</pc><ph id="2" disp="%s"/><sc id="3"/>', '<pc id="1">a</pc>%s<sc id="3"/>', "a"),
        (XLIFF_2, '<mrk id="m">a</mrk><sm id="n"/><ph id="1" dataRef="d1"/>', "a<b>", "a"),
    ],
)
def test_inline_codes_stay_or_go(tmp_path: Path, form: str, segment: str, kept: str, stripped: str) -> None:
    data = form.format(segment, "x").encode() if form else tmx(unit(("en", segment), ("pl", "x")))
    for markup, text in (("keep", kept), ("strip", stripped)):
        assert read(tmp_path / "x.tmx", data, markup=markup)[0][-1] == (text, "x")  # type: ignore[arg-type]


@pytest.mark.parametrize("attribute", ["xml:lang", "lang"])
@pytest.mark.parametrize(
    ("langs", "variants", "pair"),
    [
        (("en", "pl"), [("en-GB", "colour"), ("PL-pl", "barwa")], ("colour", "barwa")),
        (("en", "pl"), [("en-US", "color"), ("EN", "colour"), ("pl", "barwa")], ("colour", "barwa")),
        (("pt", "pt-BR"), [("pt-BR", "ônibus"), ("pt-PT", "autocarro")], ("autocarro", "ônibus")),
        (("en", "pl"), [("en", "first"), ("en", "second"), ("pl", "p")], ("first", "p")),
    ],
)
def test_a_language_finds_its_variants(
    tmp_path: Path, attribute: str, langs: tuple[str, str], variants: list[tuple[str, str]], pair: tuple[str, str]
) -> None:
    assert read(tmp_path / "x.tmx", tmx(unit(*variants, attribute=attribute)), langs)[0] == [pair]


BODY = f"<tmx><body>{unit(('en', 'x'), ('pl', 'x'))}{TMX_TAIL}"
ENTITIES = "".join(f'<!ENTITY a{n} "{f"&a{n - 1};" * 50}">' for n in range(1, 9))
BOMB = f'<!DOCTYPE tmx [<!ENTITY a0 "ha">{ENTITIES}]>{BODY}'.replace("x</seg>", "&a8;</seg>")
SECRET = f'<!DOCTYPE tmx [<!ENTITY e SYSTEM "file:///etc/hostname">]>{BODY}'.replace("x</seg>", "&e;</seg>")


@pytest.mark.parametrize(
    "data",
    [
        BOMB,
        SECRET,
        tmx(unit(("en", "a"), ("pl", "b&nbsp;c"))).decode(),  # after an external DTD a parser may skip it
        tmx(unit(("en", "<hi>" * 1000 + "</hi>" * 1000), ("pl", "x"))).decode(),
        "",
        "<tmx>\n<body>\n<tu></tuv></body></tmx>",
        "<tmx>\n<body>\n<tu>",
        "<html><body/></html>",
        "just text",
        *(TMX_HEAD.format(encoding) + TMX_TAIL for encoding in ("Shift_JIS", "foo")),
    ],
)
def test_what_cannot_be_trusted_or_read_is_refused(tmp_path: Path, data: str) -> None:
    with pytest.raises(InputError, match=r"x\.tmx: "):
        read(tmp_path / "x.tmx", data.encode())
