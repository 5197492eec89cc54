"""Files made after public reports of what goes wrong with such files: what each becomes."""

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
from tests.real_corpora import case
from tests.serve.documents.stand_in import opened, shout

# Files that are refused, and what is said of them.
REFUSED = {
    "html_lang_fr.html": "lang is 'fr'",
    "po_template.pot": "msginit",
    "tmx_ctrl.tmx": "invalid character number",
    "tmx_utf16_lie.tmx": "declares the encoding UTF-16",
}
# How many parts of each file are filled, and texts that the result has.
FILLED: dict[str, tuple[int, tuple[str, ...]]] = {
    "ascii_cli.po": (4, ('msgstr "OVERVIEW"',)),
    "cr_only.po": (2, ('#, fuzzy\rmsgid "one file"\rmsgstr "ONE FILE"\r', "zwei Dateien")),
    "ff2.po": (3, ('"TWO"',)),
    "ff3.po": (2, ('"THREE"',)),
    "html_acceptcharset.html": (2, ("GRÖSSE", 'accept-charset="ISO-8859-1"')),
    "html_attrs.html": (2, ('<html lang="de" xml:lang="de">', "<title>OPEN", 'title="Go home"', 'content="Open')),
    "html_broken.html": (6, ("TWO <i>THREE</b> FOUR</i>", "SIX", "SEVEN", "NINE &lt; TEN &gt; ELEVEN &lt;&gt; TWELVE")),
    "html_cdata_xhtml.xhtml": (3, ('xml:lang="de" lang="de"', "<br/>FILE &amp; MORE\xa0TEXT")),
    "html_charref_newline.html": (4, ("CUSTOMER,&#10;YOUR", "<p>DELETE THE ROW</p>", "<p>SHOW ALL EVENTS</p>")),
    "html_comments.html": (2, ("<!--[if IE]><p>Old browser</p><![endif]-->", "<!-- /wp:note -->", "<p>OTHER</p>")),
    "html_entities.html": (1, ("CAFÉ &amp; BAR — 10\xa0KM &lt;open&gt;", "AT&amp;T")),
    "html_latin1_decl.html": (1, ("GRÖSSE",)),
    "html_notranslate.html": (2, ('AND <span class="notranslate">Blue Sky</span>', "<var>count</var>", "\n  cd /tmp")),
    "html_pathological.html": (3, ('<b>D</b><i>O</i><a id="1">G</a>', '<i id="1b"> INSIDE B</i></b>')),
    "html_script.html": (5, ("<mi>x</mi>", 'var a = "<p>Open</p>"; // </b>', '{content:"Open"}', "<noscript>TURN")),
    "html_uppercase.HTM": (2, ('<HTML LANG="de"><BODY><P>OPEN <B>THE</B> FILE<BR>NOW</P>',)),
    "html_wrapped.html": (1, ("NO VERB IN ITS LINE, THE <em>TRANSLATION MUST</em> BE WRONG.",)),
    "json_i18n.json": (2, ('"greeting": "SHOW ALL EVENTS"', '"{count} EVENTS"')),
    "md_readme.md": (2, ("# TITLE", "- [OPEN](https://example.org) THE `file`")),
    "no_header.po": (2, ()),
    "no_header_first_done.po": (1, ()),
    "po_blank_comment_between.po": (2, ()),
    "po_charset_late.po": (1, ("# Müller",)),
    "po_dup.po": (2, ()),
    "po_empty.po": (0, ()),
    "po_escaped_cr.po": (1, ('"OPEN THE FILE\\r\\n"\n"NOW"',)),
    "po_formfeed.po": (2, ()),
    "po_fuzzy_flag_in_other.po": (1, ("#, fuzzy, no-fuzzy-match, c-format",)),
    "po_header_only.po": (0, ()),
    "po_html.po": (11, ("PRESS <kbd>Ctrl</kbd>+<kbd>C</kbd> TO", "<0>FRIEND</0>, SEE <1/>", "one {# EVENT} other")),
    "po_indent.po": (2, ('  msgstr "OPEN THE FILE"',)),
    "po_lang_blank.po": (1, ()),
    "po_lang_deu.po": (1, ()),
    "po_lang_name.po": (1, ()),
    "po_lang_posix.po": (1, ()),
    "po_latin1.po": (1, ("GRÖSSE",)),
    "po_msgctxt_same.po": (2, ()),
    "po_msgstr_multiline_empty.po": (1, ('msgstr "OPEN THE FILE"\n',)),
    "po_noeol.po": (2, ()),
    "po_noheader.po": (2, ()),
    "po_noheader_comment.po": (2, ()),
    "po_oneline.po": (2, ('msgid "Open" msgstr "OPEN"',)),
    "po_order.po": (8, ('"%s OPENED %d TICKETS IN %s"',)),
    "po_placeholders.po": (59, ('"SIZE %<PRIu64> BYTES"', "OPEN 🎉 THE FILE 👨‍👩‍👧", '" LEADING SPACE"', "10\xa0KM")),
    "po_plural1.po": (1, ('msgstr[0] "%d FILES"',)),
    "po_plural3.po": (1, ('msgstr[0] "ONE FILE"\nmsgstr[1] "%d FILES"\nmsgstr[2] "%d FILES"',)),
    "po_pot_header_fuzzy.po": (1, ()),
    "po_prev.po": (1, ('#~ msgid "gone"\n#~ msgstr ""', '#| msgctxt "old"')),
    "po_range.po": (1, ("#, fuzzy, c-format, range: 0..10",)),
    "po_tab.po": (2, ()),
    "po_u0085_comment.po": (2, ()),
    "po_workflow.po": (2, ("#=",)),
    "po_wrapped.po": (1, ('"\\tA TAB, A \\"QUOTE\\" AND A \\\\ BACKSLASH.\\n"',)),
    "sub.srt": (2, ("00:00:01,000 --> 00:00:02,500\nOPEN THE FILE\n\n2\n",)),
    "tmx_dtd_internal.tmx": (1, ("OPEN &prod; THE FILE",)),
    "tmx_inline.tmx": (2, ('ENTER<ept i="1">', '<ph x="1">footnote <sub>Open the file</sub></ph> NOW')),
    "tmx_lang_attr.tmx": (1, ('<tuv lang="de">',)),
    "tmx_lang_variants.tmx": (4, ()),
    "tmx_overlap.tmx": (1, ('BIG <bpt i="2">&lt;i></bpt>GREEN<ept i="1">&lt;/b></ept> NEW<ept i="2">',)),
    "tmx_props.tmx": (1, ()),
    "tmx_srclang_other.tmx": (0, ()),
    "tmx_utf16.tmx": (1, ("OPEN THE “FILE”",)),
    "tmx_utf16_nobom.tmx": (1, ()),
    "txt_lines.txt": (21, ("\n\n   \n\t\n  - DELETE", "/a?b=1&c=2#d", "<b>OPEN</b> THE {0} %s FILE")),
    "u2028_in_text.po": (3, ()),
    "workflow_flag.po": (2, ()),
    "xlf2_cdata_notes.xlf": (2, ("<target>NEWS &amp; MORE</target>", "<note>Open <![CDATA[<b>]]></note>")),
    "xlf2_states.xlf": (2, ('<segment state="reviewed"><source>Open the file</source><target>Datei</target>',)),
    "xlf2_unordered.xlf": (1, ('<target xml:space="preserve">OPEN  THE FILE</target>',)),
    "xlf_angular_icu.xlf": (3, ("{VAR_PLURAL, plural, =0 {NO EVENTS} =1 {ONE EVENT} other {<x id=",)),
    "xlf_angular_pairs.xlf": (8, ('<x id="START_LINK" ctype="x-a" equiv-text="&lt;a&gt;"/>WAS SENT<x id="CLOSE',)),
    "xlf_apple.xlf": (4, ("%1$@ OF %2$lld FILES", "%d%% OF %.1f MB")),
    "xlf_body_charset.xlf": (2, ('GRÖSSE: &lt;meta charset="iso-8859-1"&gt; IS OLD',)),
    "xlf_cdata.xlf": (3, ("PLEASE &lt;b&gt;SAVE&lt;/b&gt; THE FILE", "OPEN THE &lt;i&gt;BIG&lt;/i&gt; FILE NOW")),
    "xlf_charref_cr_only.xlf": (3, ("CUSTOMER,&#xD;YOUR", ">DELETE THE ROW<", ">SHOW ALL EVENTS<")),
    "xlf_charref_edge.xlf": (3, (">SAVE THE FILE&#10;<", ">&#10;DELETE THE ROW<", ">SHOW ALL EVENTS<")),
    "xlf_charref_newline.xlf": (3, ("CUSTOMER,&#10;YOUR", ">DELETE THE ROW<", ">SHOW ALL EVENTS<")),
    "xlf_empty_source.xlf": (0, ()),
    "xlf_escaped_html.xlf": (2, ('&lt;a href="https://example.org/x"&gt;FILE&lt;/a&gt;&lt;br/&gt;NOW',)),
    "xlf_newline_pair.xlf": (2, ("EVENTS OF THE BIG</mrk> FILE</g> NOW",)),
    "xlf_note_alt.xlf": (1, (">OPEN THE  FILE</target><note", "<target>Eine Datei</target></alt-trans>")),
    "xlf_prefix.xlf": (1, ("</x:source><x:target", "OPEN <x:g")),
    "xlf_protected.xlf": (2, ('<mrk mtype="protected">Acme Writer</mrk> AND', 'translate="no">apt install</g>')),
    "xlf_states.xlf": (4, ('state="needs-l10n">Datei', 'state="translated">Datei')),
    "xlf_tab_sdl.sdlxliff": (1, ('mid="1">OPEN THE FILE.</mrk> <mrk mtype="seg" mid="2">DELETE <g id="5">',)),
    "xlf_target_equals_source.xlf": (0, ()),
}  # fmt: skip
OTHERS = {"INDEX.md", "srv_requests.sh", "srv_requests.expected.md", "terms.tsv"}  # tested elsewhere
NEW = r"<((?:\w+:)?)target\b(?:[^<>/]*>.*?</\1target>|[^<>]*/>)|<tuv [^<>]*><prop type=\"x-machine.*?</tuv>"
ATTRIBUTES = r' (?:target-language|trgLang|state|subState|LANG|(?:xml:)?lang)="[^"]*"'


def decoded(data: bytes) -> str:
    utf_16 = data.startswith(b"\xff\xfe") or data[1:2] == b"\0"
    try:
        return data.decode("utf-16-le" if utf_16 else "utf-8")
    except UnicodeDecodeError:
        return data.decode("latin-1")


@pytest.mark.parametrize("name", FILLED)
def test_a_file_is_filled(name: str) -> None:
    path, file = case(f"documents/{name}"), io.BytesIO()
    found = opened(path)
    found.write([shout(text) for text, _ in found.texts()], file)
    before, after = decoded(path.read_bytes()), decoded(file.getvalue())
    count, texts = FILLED[name]
    assert found.filled == count
    assert all(text in after for text in texts)
    if count == 0:
        assert after == before
    elif path.suffix == ".po":
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


@pytest.mark.parametrize("name", REFUSED)
def test_a_file_is_refused(name: str) -> None:
    path = case(f"documents/{name}")
    with pytest.raises(InputError, match=REFUSED[name]):
        list(opened(path).texts())


def test_no_file_is_left_out() -> None:
    assert {path.name for path in case("documents").iterdir()} == {*FILLED, *REFUSED, *OTHERS}
