"""What files of localisers hold: each kind is filled in its own place, and all else stays."""

import io
from pathlib import Path

import pytest

from fairseq_ext.base.errors import InputError
from tests.serve.documents.stand_in import filled, opened

HEADER = """msgid ""
msgstr ""
"Language: de\\n"
"Content-Type: text/plain; charset=UTF-8\\n"
"Plural-Forms: nplurals=2; plural=(n != 1);\\n"

"""
FUZZY = "# Machine translation by GAD\n#, fuzzy"
# Entries, and what they become, with @ for the comment and the flag.
PO = {
    "no_space": ('msgid"a"\nmsgstr""\n', '@\nmsgid"a"\nmsgstr "A"\n'),
    "one_line": ('msgid "a" msgstr ""\n', '@\nmsgid "a" msgstr "A"\n'),
    "no_end": ('msgid "a"\nmsgstr ""', '@\nmsgid "a"\nmsgstr "A"'),
    "indented": ('\n  msgid "a"\n  msgstr ""\n', '\n@\n  msgid "a"\n  msgstr "A"\n'),
    "empty_strings": ('msgid "a"\nmsgstr ""\n""\n\n#~ msgid "b"\n', None),
    "continued": ('msgid "a"\nmsgstr ""\n""\n# end', '@\nmsgid "a"\nmsgstr "A"\n# end'),
    "done_later": ('msgid "a"\nmsgstr ""\n"b"\n', 'msgid "a"\nmsgstr ""\n"b"\n'),
    "form_feed": ('# c \x0c\nmsgid "a"\nmsgstr ""\n\x0c\n', '# c \x0c\n@\nmsgid "a"\nmsgstr "A"\n\x0c\n'),
    "next_line": ('# c\x85d\nmsgid "a"\nmsgstr ""\n', '# c\x85d\n@\nmsgid "a"\nmsgstr "A"\n'),
    "separator": ('msgid "a\u2028b"\nmsgstr ""\n', '@\nmsgid "a\u2028b"\nmsgstr ""\n"A\u2028"\n"B"\n'),
    "detached": ('# c\n\nmsgid "a"\nmsgstr ""\n', '# c\n\n@\nmsgid "a"\nmsgstr "A"\n'),
    "flag": (
        '#, no-fuzzy-a, c-format\nmsgid "a"\nmsgstr ""\n',
        '@, no-fuzzy-a, c-format\nmsgid "a"\nmsgstr "A"\n',
    ),
    "range": ('#, range: 0..9\nmsgid "a"\nmsgstr ""\n', '@, range: 0..9\nmsgid "a"\nmsgstr "A"\n'),
    "workflow": (
        '#= fuzzy\nmsgid "a"\nmsgstr ""\n',
        '# Machine translation by GAD\n#= fuzzy\n#, fuzzy\nmsgid "a"\nmsgstr "A"\n',
    ),
    "carriage_return": ('msgid "a\\r\\nb"\nmsgstr ""\n', '@\nmsgid "a\\r\\nb"\nmsgstr ""\n"A\\r\\n"\n"B"\n'),
    "quotes": (
        'msgid "\\ta \\"b\\" \\\\"\nmsgstr ""\n',
        '@\nmsgid "\\ta \\"b\\" \\\\"\nmsgstr "\\tA \\"B\\" \\\\"\n',
    ),
    "plural_3": (
        'msgid "a"\nmsgid_plural "b"\nmsgstr[0] ""\nmsgstr[1] ""\nmsgstr[2] ""\n',
        '@\nmsgid "a"\nmsgid_plural "b"\nmsgstr[0] "A"\nmsgstr[1] "B"\nmsgstr[2] "B"\n',
    ),
    "plural_1": ('msgid "a"\nmsgid_plural "b"\nmsgstr[0] ""\n', '@\nmsgid "a"\nmsgid_plural "b"\nmsgstr[0] "B"\n'),
    "previous": (
        '#, fuzzy\n#| msgid "o"\nmsgid "a"\nmsgstr ""\n\n#~| msgid "p"\n#~ msgid "q"\n#~ msgstr ""\n',
        '# Machine translation by GAD\n#, fuzzy\n#| msgid "o"\nmsgid "a"\nmsgstr "A"\n\n'
        '#~| msgid "p"\n#~ msgid "q"\n#~ msgstr ""\n',
    ),
    "twice": (
        'msgid "a"\nmsgstr ""\n\nmsgid "a"\nmsgstr ""\n',
        '@\nmsgid "a"\nmsgstr "A"\n\n@\nmsgid "a"\nmsgstr "A"\n',
    ),
    "entity": (
        'msgid "a &amp; <b>b</b>&nbsp;&#160;c"\nmsgstr ""\n',
        '@\nmsgid "a &amp; <b>b</b>&nbsp;&#160;c"\nmsgstr "A &amp; <b>B</b>&nbsp;&#160;C"\n',
    ),
    "ruby": (
        '#, ruby-format\nmsgid "a %<n>s b"\nmsgstr ""\n',
        '@, ruby-format\nmsgid "a %<n>s b"\nmsgstr "A %<n>s B"\n',
    ),
    "percent": (
        '#, c-format\nmsgid "100 % sure"\nmsgstr ""\n',
        '@, c-format\nmsgid "100 % sure"\nmsgstr "100 % sURE"\n',
    ),
    "inner_comment": (
        'msgid "_: note %s\\n"\n"a %s"\nmsgstr ""\n',
        '@\nmsgid "_: note %s\\n"\n"a %s"\nmsgstr "A %s"\n',
    ),
    "words": (
        '#, no-c-format\nmsgid "100 % sure"\nmsgstr ""\n',
        '@, no-c-format\nmsgid "100 % sure"\nmsgstr "100 % SURE"\n',
    ),
}


@pytest.mark.parametrize("header", ["", HEADER, HEADER.replace("de", "deu", 1), HEADER.replace("de", "German", 1)])
@pytest.mark.parametrize("kind", PO)
def test_entries_of_catalogues(kind: str, header: str, tmp_path: Path) -> None:
    before, after = PO[kind]
    path = tmp_path / "a.po"
    path.write_bytes((header + before).encode())
    if after is None:
        with pytest.raises(InputError, match="an entry has comments, a msgid"):
            filled(path)
    else:
        assert filled(path).decode() == header + after.replace("@", FUZZY)


@pytest.mark.parametrize(
    ("msgid", "text", "msgstr"), [("don''t {0}", "don't ", "l''a {0}"), ("it's '{0}'", "it's '", "l'a {0}")]
)
def test_apostrophes_of_java_are_doubled(msgid: str, text: str, msgstr: str, tmp_path: Path) -> None:
    (tmp_path / "a.po").write_text(f'#, java-format\nmsgid "{msgid}"\nmsgstr ""\n')
    found, file = opened(tmp_path / "a.po"), io.BytesIO()
    assert [given.startswith(text) for given, _ in found.texts()] == [True]
    found.write(["l'a {0}"], file)
    assert f'msgstr "{msgstr}"\n'.encode() in file.getvalue()


@pytest.mark.parametrize(
    ("text", "charset", "found"),
    [
        ("Größe", "ISO-8859-1", "ISO-8859-1"),
        ("Größe ß ŒÿŸ", "ISO-8859-15", "ISO-8859-15"),
        ("ÿ", "ISO-8859-1", "UTF-8"),
        ("i", "CHARSET", "CHARSET"),
    ],
)
def test_a_catalogue_that_cannot_hold_the_answer_becomes_utf_8(
    text: str, charset: str, found: str, tmp_path: Path
) -> None:
    header = "# charset=ISO-8859-1\n" + HEADER.replace("UTF-8", charset)
    encoding = "utf-8" if charset == "CHARSET" else charset
    (tmp_path / "a.po").write_bytes(f'{header}msgid "{text} charset={charset}"\nmsgstr ""\n'.encode(encoding))
    written = filled(tmp_path / "a.po").decode("utf-8" if found == "CHARSET" else found)
    assert written.startswith(header.replace(f"plain; charset={charset}", f"plain; charset={found}"))
    assert written.endswith(f'msgid "{text} charset={charset}"\nmsgstr "{text.upper()} CHARSET={charset.upper()}"\n')


XLIFF = """<?xml version="1.0"?>
<xliff version="1.2"><file source-language="en" target-language="de" original="a" datatype="plaintext"><body>
{}<trans-unit id="last"><source>next</source></trans-unit>
</body></file></xliff>
"""
TARGET = '<target state="needs-review-translation" state-qualifier="leveraged-mt">{}</target>'
# Sources, and their targets.
SOURCES = {
    "reference": ("a,&#10;b", "A,&#10;B"),
    "reference_at_the_edges": ("&#xD;&#x0a;a&#10;", "&#xD;&#x0a;A&#10;"),
    "wrapped": ("\n  a\n    b <x id='1'/>\n", "\n  A B <x id='1'/>\n"),
    "cdata": ("<![CDATA[a <b>b</b> & c]]>", "A &lt;b&gt;B&lt;/b&gt; &amp; C"),
    "cdata_within": ("a <![CDATA[<i>b</i>]]> c", "A &lt;i&gt;B&lt;/i&gt; C"),
    "escaped": (
        'a &lt;b&gt;b&lt;/b&gt; &lt;a href="x"&gt;c&lt;/a&gt;',
        'A &lt;b&gt;B&lt;/b&gt; &lt;a href="x"&gt;C&lt;/a&gt;',
    ),
    "charset": ('ö &lt;meta charset="iso-8859-1"&gt; a', 'Ö &lt;meta charset="iso-8859-1"&gt; A'),
    "ruby": ("a %&lt;b&gt;s c", "A %&lt;b&gt;s C"),
    "protected": ('a <mrk mtype="protected">b</mrk> c', 'A <mrk mtype="protected">b</mrk> C'),
    "untranslated": ('a <g id="1" translate="no">b</g> c', 'A <g id="1" translate="no">b</g> C'),
    "nested": (
        "a <g id='1'>b <ph id='2'/>c\n<g id='3'>d</g> e</g> f",
        "A <g id='1'>B <ph id='2'/>C <g id='3'>D</g> E</g> F",
    ),
    "icu": ("{{n, plural, one {{a}} other {{<x id='1'/> b}}}}", "{{n, plural, one {{A}} other {{<x id='1'/> B}}}}"),
    "bare": ("a < b", None),
}


@pytest.mark.parametrize("kind", SOURCES)
def test_sources_of_xliff(kind: str, tmp_path: Path) -> None:
    source, target = SOURCES[kind]
    source = source.replace("{{", "{").replace("}}", "}")
    text = XLIFF.format(f'<trans-unit id="1"><source>{source}</source></trans-unit>\n')
    (tmp_path / "a.xlf").write_text(text, encoding="utf-8")
    if target is None:
        with pytest.raises(InputError, match="line 3: is not well-formed"):
            filled(tmp_path / "a.xlf")
        return
    target = target.replace("{{", "{").replace("}}", "}")
    wanted = text.replace(f"{source}</source>", f"{source}</source>{TARGET.format(target)}")
    wanted = wanted.replace("next</source>", f"next</source>{TARGET.format('NEXT')}")
    assert filled(tmp_path / "a.xlf").decode() == wanted


def segment(number: int, text: str) -> str:
    return f'<mrk mtype="seg" mid="{number}">{text}</mrk>'


SEGMENTED = f"<source>a. b.</source><seg-source>{segment(1, 'a.')} {segment(2, '<g>b</g>.')}</seg-source>"
FILLED = f"{segment(1, 'A.')} {segment(2, '<g>B</g>.')}"


@pytest.mark.parametrize(
    ("target", "wanted"),
    [
        ("", TARGET.format(FILLED)),
        ("<target/>", TARGET.format(FILLED)),
        (f"<target>{segment(1, '')}-{segment(2, '')}</target>", TARGET.format(FILLED.replace("> <", ">-<"))),
        (
            '<target><mrk mtype="seg" mid="1"/><mrk mtype="seg" mid="2"/></target>',
            TARGET.format(FILLED.replace("> <", "><")),
        ),
        (f"<target>{segment(1, 'eins')} {segment(2, '')}</target>", TARGET.format(FILLED.replace("A.", "eins"))),
        (f"<target>{segment(1, 'eins')}</target>", TARGET.format(FILLED.replace("A.", "eins"))),
        (f"<target>{segment(1, 'eins')} {segment(2, 'zwei')}</target>", None),
        ("<target>eins zwei</target>", None),
        (f'<target state="new">{segment(1, "a.")} {segment(2, "b.")}</target>', TARGET.format(FILLED)),
    ],
)
def test_segments_of_a_unit_are_filled_in_their_places(target: str, wanted: str | None, tmp_path: Path) -> None:
    text = XLIFF.format(f'<trans-unit id="1">{SEGMENTED}{target}<note>n</note></trans-unit>\n')
    (tmp_path / "a.sdlxliff").write_text(text)
    after = text.replace(f"{target}<note>", f"{target if wanted is None else wanted}<note>")
    after = after.replace("next</source>", f"next</source>{TARGET.format('NEXT')}")
    assert filled(tmp_path / "a.sdlxliff").decode() == after


def test_spaces_are_kept_where_xliff_says_so(tmp_path: Path) -> None:
    unit = '<trans-unit id="1"><source>a\n  b  c</source></trans-unit><group translate="no">{}</group>\n'
    unit = f'<group xml:space="preserve">{unit}</group>'
    inner = '<trans-unit id="2" xml:space="default" translate="yes"><source>a\nb</source></trans-unit>'
    (tmp_path / "a.xlf").write_text(XLIFF.format(unit.format(inner)))
    written = filled(tmp_path / "a.xlf").decode()
    assert ">A\n  B  C</target>" in written
    assert ">A B</target>" in written


@pytest.mark.parametrize(("target", "is_done"), [("<![CDATA[b]]>", True), ("<g><![CDATA[]]></g>", False), (" ", False)])
def test_text_in_cdata_is_a_translation(target: str, is_done: bool, tmp_path: Path) -> None:
    unit = f'<trans-unit id="1"><source>a</source><target>{target}</target></trans-unit>\n'
    (tmp_path / "a.xlf").write_text(XLIFF.format(unit))
    assert (b">A</target>" in filled(tmp_path / "a.xlf")) != is_done
    unit = f'<tu><tuv lang="en"><seg>a</seg></tuv><tuv lang="de"><seg>{target}</seg></tuv></tu>'
    (tmp_path / "a.tmx").write_text(TMX.format("", unit))
    assert (b">A</seg>" in filled(tmp_path / "a.tmx")) != is_done


@pytest.mark.parametrize("state", ["new", "needs-translation", "initial", "translated", "needs-adaptation", "final"])
def test_states_of_targets(state: str, tmp_path: Path) -> None:
    unit = f'<trans-unit id="1"><source>a</source><target state="{state}">b</target></trans-unit>\n'
    (tmp_path / "a.xlf").write_text(XLIFF.format(unit))
    assert (b">A</target>" in filled(tmp_path / "a.xlf")) == (state in ("new", "needs-translation", "initial"))


TMX = '<?xml version="1.0"{}?><!DOCTYPE tmx SYSTEM "a.dtd" [<!ENTITY p "q">]><tmx version="1.4"><body>{}</body></tmx>'
MADE = '<tuv xml:lang="de"><prop type="x-machine-translated">GAD</prop><seg>{}</seg></tuv>'
# Segments of TMX, and their translations.
SEGMENTS = {
    "entity": ("a &p; b", "A &p; B"),
    "overlapping": (
        'a <bpt i="1"/>b <bpt i="2"/>c<ept i="1"/> d<ept i="2"/> e',
        'A <bpt i="1"/>B <bpt i="2"/>C<ept i="1"/> D<ept i="2"/> E',
    ),
    "inline": (
        '<hi>a</hi> <ph x="1">f <sub>b</sub></ph> c<it pos="begin">{i}</it>d<ut>\\par</ut>',
        '<hi>A</hi> <ph x="1">f <sub>b</sub></ph> C<it pos="begin">{i}</it>D<ut>\\par</ut>',
    ),
    "lines": ("a\nb&#10;c", "A\nB&#10;C"),
    "cdata": ("<![CDATA[a & b]]>", "A &amp; B"),
}


@pytest.mark.parametrize("language", ["en", "EN-US", "en_US", "ENG"])
@pytest.mark.parametrize("kind", SEGMENTS)
def test_segments_of_tmx(kind: str, language: str, tmp_path: Path) -> None:
    source, target = SEGMENTS[kind]
    unit = f'<tu><prop>p</prop><tuv xml:lang="{language}"><seg>{source}</seg></tuv></tu>'
    (tmp_path / "a.tmx").write_text(TMX.format("", unit))
    made = unit.replace("</tu>", f"{MADE.format(target)}</tu>")
    assert filled(tmp_path / "a.tmx").decode() == TMX.format("", made)


def test_an_empty_variant_keeps_what_else_it_has(tmp_path: Path) -> None:
    unit = (
        '<tu><tuv lang="en"><seg>a</seg></tuv> <tuv lang="de" creationid="x"><prop type="p">q</prop><seg/></tuv></tu>'
    )
    (tmp_path / "a.tmx").write_text(TMX.format("", unit))
    made = unit.replace("<prop", '<prop type="x-machine-translated">GAD</prop><prop').replace("<seg/>", "<seg>A</seg>")
    assert filled(tmp_path / "a.tmx").decode() == TMX.format("", made)


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be"])
def test_utf_16_is_kept_with_and_without_its_mark(encoding: str, tmp_path: Path) -> None:
    unit = '<tu><tuv lang="en"><seg>“a”</seg></tuv></tu>'
    (tmp_path / "a.tmx").write_bytes(TMX.format(' encoding="UTF-16"', unit).encode(encoding))
    wanted = TMX.format(
        ' encoding="UTF-16"', unit.replace("</tu>", MADE.format("“A”").replace("xml:lang", "lang") + "</tu>")
    )
    assert filled(tmp_path / "a.tmx").decode(encoding) == wanted


# Pages, and what they become.
PAGES = {
    "wrapped": ("<p>\n  a\n  <em>b\n  c</em> d.\n</p>", "<p>\n  A <em>B C</em> D.\n</p>"),
    "reference": ("<p>a,&#10;b</p><p>c</p>", "<p>A,&#10;B</p><p>C</p>"),
    "pre": ("<p>a</p><pre>b\n  c</pre><textarea>d</textarea>", "<p>A</p><pre>b\n  c</pre><textarea>d</textarea>"),
    "inline": (
        "<p>a <code>b</code> c <kbd>d</kbd> <var>e</var> <samp>f</samp> g",
        "<p>A <code>b</code> C <kbd>d</kbd> <var>e</var> <samp>f</samp> G",
    ),
    "untranslated": (
        '<div translate="no"><div>a</div>b</div><p class="x notranslate">c</p>d',
        '<div translate="no"><div>a</div>b</div><p class="x notranslate">c</p>D',
    ),
    "conditional": (
        "<!--[if IE]><p>a</p><![endif]--><![if !IE]><p>b</p><![endif]>",
        "<!--[if IE]><p>a</p><![endif]--><![if !IE]><p>B</p><![endif]>",
    ),
    "broken": (
        '<p>a <b>b <i>c</b> d</i><p>e <a href="x>f</a>\n<div>g</span> h < i <> j</p',
        '<p>A <b>B <i>C</b> D</i><p>E <a href="x>F</a>\n<div>G</span> H &lt; I &lt;&gt; J</p',
    ),
    "pair_over_break": ("<p>a <b>b<br>c</b> d</p>", "<p>A <b>B<br>C</b> D</p>"),
    "capitals": ('<HTML LANG="en"><P>a <B>b</B><BR>c', '<HTML LANG="de"><P>A <B>B</B><BR>C'),
    "unquoted": ("<html lang=en><p title=a>b", '<html lang="de"><p title=a>B'),
    "xhtml": (
        '<html xml:lang="en" lang="en"><p title="t">a<br/>b&#160;c</p>',
        '<html xml:lang="de" lang="de"><p title="t">A<br/>B\u00a0C</p>',
    ),
    "accept": ('<form accept-charset="ISO-8859-1">ö</form>', '<form accept-charset="ISO-8859-1">Ö</form>'),
    "template": (
        "<%= a %> b {{ c && d }} {% if e < f %}g{% end %}<?php h ?> <? p < q ?> <?= r > s ?>j <math><mi>i</mi></math>",
        "<%= a %> B {{ c && d }} {% if e < f %}G{% end %}<?php h ?> <? p < q ?> <?= r > s ?>J <math><mi>i</mi></math>",
    ),
    "script": ('<script>"<p>a</p>"; // </b></script>b', '<script>"<p>a</p>"; // </b></script>B'),
    "entities": ("caf&eacute; &amp; AT&T &mdash; &lt;x&gt; &unknown;", "CAFÉ &amp; AT&amp;T — &lt;x&gt; &amp;unknown;"),
}


@pytest.mark.parametrize("kind", PAGES)
def test_pages(kind: str, tmp_path: Path) -> None:
    before, after = PAGES[kind]
    (tmp_path / "a.html").write_text(before, encoding="utf-8")
    assert filled(tmp_path / "a.html").decode() == after


def test_a_page_in_latin_1_has_references_to_other_characters(tmp_path: Path) -> None:
    page = '<meta http-equiv="Content-Type" content="text/html; charset=iso-8859-1"><p>{}'
    (tmp_path / "a.html").write_bytes(page.format("öÿ").encode("latin-1"))
    assert filled(tmp_path / "a.html").decode("latin-1") == page.format("Ö&#376;")
