"""Documents are filled, and all else in them keeps its bytes."""

import io
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairseq_ext.base.errors import InputError
from fairseq_ext.serve.runtime.pieces import split
from fairseq_ext.serve.runtime.tags import HTML as MARKUP
from tests.serve.documents.stand_in import filled, opened, shout

PO = """# Of a program
msgid ""
msgstr ""
"Language: de\\n"
"Content-Type: text/plain; charset=UTF-8\\n"
"Plural-Forms: nplurals=2; plural=(n != 1);\\n"

#. a comment
#: a.c:1
#, c-format
msgctxt "menu"
msgid "open %s"
msgid_plural ""
"many "
"files"
msgstr[0] ""
msgstr[1] ""

msgid "done"
msgstr   "fertig"

#| msgid "old"
msgid "two\\n"
"lines\\n"
msgstr ""

#, fuzzy
msgid "half"
msgstr "halb"

msgid "%s"
msgstr ""

#~ msgid "gone"
#~ msgstr ""
"""
PO_FILLED = (
    PO.replace("#. a comment", "# Machine translation by GAD\n#. a comment")
    .replace("#, c-format", "#, fuzzy, c-format")
    .replace('msgstr[0] ""\nmsgstr[1] ""', 'msgstr[0] "OPEN %s"\nmsgstr[1] "MANY FILES"')
    .replace('#| msgid "old"', '# Machine translation by GAD\n#, fuzzy\n#| msgid "old"')
    .replace('"lines\\n"\nmsgstr ""', '"lines\\n"\nmsgstr ""\n"TWO\\n"\n"LINES\\n"')
)
XLIFF = """<?xml version='1.0' encoding="UTF-8"?>
<!-- <trans-unit> --><xliff version="1.2" xmlns="urn:oasis:names:tc:xliff:document:1.2">
<file source-language="en-GB" target-language="de" original='a>b'><body>
  <trans-unit id="1">
    <source>save <g id="1">the &amp; file</g> <ph id="2">&lt;br/&gt;</ph>now</source>
    <alt-trans><source>other</source><target>andere</target></alt-trans>
  </trans-unit>
  <trans-unit id="2"><source>done</source><target>fertig</target></trans-unit>
  <trans-unit id="3"><source>new</source><target state="new">new</target></trans-unit>
  <trans-unit id="4" translate="no"><source>no</source></trans-unit>
  <group translate="no"><trans-unit id="5"><source>no</source></trans-unit></group>
  <trans-unit id="6"><source>empty</source><target/><note>n</note></trans-unit>
</body></file></xliff>
"""
_STATES = 'state="needs-review-translation" state-qualifier="leveraged-mt"'
XLIFF_FILLED = (
    XLIFF.replace(
        "now</source>",
        f'now</source>\n    <target {_STATES}>SAVE <g id="1">THE &amp; FILE</g>'
        ' <ph id="2">&lt;br/&gt;</ph>NOW</target>',
    )
    .replace('<target state="new">new</target>', f"<target {_STATES}>NEW</target>")
    .replace("<target/>", f"<target {_STATES}>EMPTY</target>")
)
XLIFF_2 = """<xliff xmlns="urn:oasis:names:tc:xliff:document:2.0" version="2.0" srcLang="en"><file id="f">
<unit id="u"><segment id="s"><source>open <pc id="1">it</pc></source></segment>
<segment state="final"><source>done</source><target>fertig</target></segment></unit>
<unit id="v" translate="no"><segment><source>no</source></segment></unit></file></xliff>"""
XLIFF_2_FILLED = (
    XLIFF_2.replace('srcLang="en"', 'srcLang="en" trgLang="de"')
    .replace('<segment id="s">', '<segment id="s" state="translated" subState="mt:unreviewed">')
    .replace("</pc></source>", '</pc></source><target>OPEN <pc id="1">IT</pc></target>')
)
TMX = """<?xml version="1.0"?><!DOCTYPE tmx SYSTEM "tmx14.dtd"><tmx version="1.4"><header srclang="en"/><body>
  <tu>
    <tuv xml:lang="en-US"><seg>open {0}</seg></tuv>
  </tu>
  <tu><tuv xml:lang="en"><seg>done</seg></tuv><tuv xml:lang="de"><seg>fertig</seg></tuv></tu>
  <tu><tuv xml:lang="fr"><seg>oui</seg></tuv></tu>
</body></tmx>"""
TMX_FILLED = TMX.replace(
    "open {0}</seg></tuv>",
    'open {0}</seg></tuv>\n    <tuv xml:lang="de"><prop type="x-machine-translated">GAD</prop>'
    "<seg>OPEN {0}</seg></tuv>",
)
HTML = """<!DOCTYPE html><html lang="en"><head><title>the page</title><style>p { a: b }</style>
<script>if (a < b) { c("<p>no</p>") }</script></head><body><p class='a>b'>one <b>two</b> &amp; three<br>
<!-- <p>no</p> --> 1 &lt; 2 </p></body></html>
"""
HTML_FILLED = (
    HTML.replace("the page", "THE PAGE").replace("one", "ONE").replace("two", "TWO").replace("three", "THREE")
).replace('lang="en"', 'lang="de"')
CASES = {
    "a.po": (PO, PO_FILLED),
    "a.xlf": (XLIFF, XLIFF_FILLED),
    "b.xliff": (XLIFF_2, XLIFF_2_FILLED),
    "a.tmx": (TMX, TMX_FILLED),
    "a.html": (HTML, HTML_FILLED),
}


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "crlf"])
@pytest.mark.parametrize("name", CASES)
def test_what_has_no_translation_gets_one(name: str, encoding: str, tmp_path: Path) -> None:
    before, after = (text.replace("\n", "\r\n") if encoding == "crlf" else text for text in CASES[name])
    coded = "utf-8" if encoding == "crlf" else encoding
    (tmp_path / name).write_bytes(before.encode(coded))
    assert filled(tmp_path / name).decode(coded) == after


@pytest.mark.parametrize("name", CASES)
def test_what_is_not_translated_stays(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(CASES[name][0])
    found, file = opened(tmp_path / name), io.BytesIO()
    count = len(list(found.texts()))
    found.write([""] * count, file)
    assert found.filled == 0
    wanted = CASES[name][0].replace('srcLang="en"', 'srcLang="en" trgLang="de"').replace('l lang="en"', 'l lang="de"')
    assert file.getvalue().decode() == wanted


@pytest.mark.parametrize("name", ["b.xliff", "a.tmx", "a.html"])
def test_regions_are_written_as_documents_write_them(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(CASES[name][0])
    found, file = opened(tmp_path / name, target="pt_BR"), io.BytesIO()
    found.write([text for text, _ in found.texts()], file)
    assert b'"pt-BR"' in file.getvalue()
    assert b"pt_BR" not in file.getvalue()


@pytest.mark.parametrize("name", ["a.po", "a.xlf", "a.tmx"])
def test_all_is_translated_where_that_is_asked(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(CASES[name][0])
    found = filled(tmp_path / name, every=True)
    assert (b"DONE" in found, b"fertig" in found) == (True, False)


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("change", [-1, 1])
def test_a_lost_or_added_text_is_an_error(name: str, change: int, tmp_path: Path) -> None:
    (tmp_path / name).write_text(CASES[name][0])
    found = opened(tmp_path / name)
    count = len(list(found.texts())) + change
    with pytest.raises(InputError, match="has other texts than were translated"):
        found.write(["a"] * count, io.BytesIO())


# Entities that would expand to billions of characters.
LAUGHS = '<!ENTITY a0 "ha">' + "".join(f'<!ENTITY a{n + 1} "' + 99 * f"&a{n};" + '">' for n in range(9))


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("a.xlf", "<tmx/>", "no <xliff>"),
        ("a.xlf", XLIFF.replace("en-GB", "fr"), "source-language is 'fr'"),
        ("a.xlf", XLIFF[:700], "line 11: is not well-formed XML"),
        ("a.xlf", "<xliff><", "line 1: is not well-formed XML"),
        ("a.tmx", "words", "not well-formed XML"),
        ("a.tmx", "<xliff/>", "no <tmx>"),
        ("a.po", 'msgid "a"\nmsgid "b"\nx\n', "line 3: 'x' is no keyword"),
        ("a.po", PO.replace("Language: de", "Language: pl"), "Language is 'pl'"),
        ("a.po", PO.replace("UTF-8", "nothing"), "encoding 'nothing' is unknown"),
        ("a.txt", "\ufeff<?xml version='1.0'?><a/>", "is XML or HTML, not text"),
        ("a.html", '<html lang="fr"><p>a', "lang is 'fr'"),
        ("a.tmx", "<tmx><tu><tuv><seg>&#x1F;</seg></tuv></tu></tmx>", "invalid character number"),
        ("a.tmx", TMX.replace("?>", ' encoding="UTF-16"?>', 1), "declares the encoding UTF-16"),
        ("a.tmx", "<tmx>&x;</tmx>", "undefined entity"),
        ("a.tmx", f"<!DOCTYPE tmx [{LAUGHS}]><tmx>&a9;</tmx>", "amplification"),
        ("a.pot", PO.replace("nplurals=2", "nplurals=INTEGER"), "msginit"),
    ],
)
def test_what_cannot_be_read_is_one_line(name: str, content: str, said: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(content, encoding="utf-8")
    with pytest.raises(InputError, match=said) as caught:
        filled(tmp_path / name)
    assert name in str(caught.value)


PARTS = ["a", " ", "\n", "<b>", "</b>", "<p>", "<x/>", "%s", "{0}", "&amp;", "<", "é", "http://x.y/z", "\U000f0001"]


@settings(deadline=None)
@given(st.lists(st.sampled_from(PARTS)))
def test_pieces_are_the_text(parts: list[str]) -> None:
    text = "".join(parts)
    assert split(text).join(split(text).texts) == text
    marked = split(text, MARKUP)
    again = marked.join([shout(each) for each in marked.texts])
    assert split(again, MARKUP).texts == [shout(each) for each in marked.texts]
    assert all(again.count(part) == text.count(part) for part in ("<b>", "</b>", "<p>", "<x/>", "{0}", "\U000f0001"))
    assert all("\n" not in each and each == each.strip() for each in marked.texts)
