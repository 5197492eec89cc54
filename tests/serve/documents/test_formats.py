"""Formats of apps, subtitles and Markdown are filled in place; other files that are not text are refused by name."""

import json
from pathlib import Path

import pytest

from fairseq_ext.base.errors import InputError
from fairseq_ext.serve.documents import toolkit_documents
from fairseq_ext.serve.documents.formats import TEXT, format_of
from tests.serve.documents.stand_in import filled

SUBTITLES = (
    "1\n00:00:01,000 --> 00:00:02,500\nOpen the\n<i>file</i>\n\n2\n00:00:03,000 --> 00:00:04,000\n- Yes!\n- No.\n"
)
CUES = "WEBVTT\n\nNOTE a\n\nx\n00:01.000 --> 00:04.000 align:start\n<v Bob>Go &amp; stop\n"
UNIT = {"stringUnit": {"state": "translated", "value": '%lld "rows"'}}
STRINGS = json.dumps(
    {
        "sourceLanguage": "en",
        "strings": {
            "Open %@": {"comment": "c"},
            "done": {"localizations": {"de": {"stringUnit": {"state": "translated", "value": "fertig"}}}},
            "fixed": {"shouldTranslate": False},
            "rows": {"localizations": {"en": {"variations": {"plural": {"other": UNIT}}}}},
        },
        "version": "1.0",
    },
    indent=2,
    separators=(",", " : "),
)


@pytest.mark.parametrize(
    ("name", "before", "after"),
    [
        (
            "a.srt",
            SUBTITLES,
            SUBTITLES.replace("Open the\n<i>file", "OPEN THE <i>FILE").replace("Yes", "YES").replace("No", "NO"),
        ),
        ("a.vtt", CUES.replace("\n", "\r\n"), CUES.replace("Go", "GO").replace("stop", "STOP").replace("\n", "\r\n")),
    ],
)
def test_subtitles_keep_their_times(name: str, before: str, after: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(before.encode())
    assert filled(tmp_path / name).decode() == after


def test_string_catalogues_get_what_they_lack(tmp_path: Path) -> None:
    (tmp_path / "a.xcstrings").write_text(STRINGS)
    text = filled(tmp_path / "a.xcstrings").decode()
    before, found = json.loads(STRINGS), json.loads(text)
    made = [{"stringUnit": {"state": "needs_review", "value": value}} for value in ("OPEN %@", '%lld "ROWS"')]
    before["strings"]["Open %@"]["localizations"] = {"de": made[0]}
    before["strings"]["rows"]["localizations"]["de"] = {"variations": {"plural": {"other": made[1]}}}
    assert found == before
    assert text.startswith(STRINGS[: STRINGS.index("},")].rstrip())


JSON = """{
  "a": {"b": "Open {{n}}", "c" :5, "d": [true, "Two\\n\\"rows\\"", "{0}"]},
\t"d.e": "Gr\\u00f6\\u00dfe", "@x": {"description": "Say"}, "f": "ö"
}
"""


@pytest.mark.parametrize(
    ("text", "changes"),
    [
        (JSON, {"Open": "OPEN", "Two": "TWO", "rows": "ROWS", '"Gr\\u00f6\\u00dfe': '"GR\\u00d6SSE', '"ö"': '"Ö"'}),
        ('{"a": {"message": "Open $N$", "description": "Say", "x": {"y": "z"}}}', {"Open": "OPEN"}),
        ('["a", {"b": "c"}]', {'"a"': '"A"', '"c"': '"C"'}),
        ('"a"', {"a": "A"}),
        ("[]", {}),
    ],
)
def test_json_keeps_all_but_its_texts(text: str, changes: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text(text, encoding="utf-8")
    wanted = text
    for old, new in changes.items():
        wanted = wanted.replace(old, new)
    assert filled(tmp_path / "a.json").decode() == wanted


APPS = {
    "strings.xml": (
        '<?xml version="1.0" encoding="utf-8"?>\n<resources>\n'
        '    <string name="n" translatable="false">Acme</string>\n'
        '    <string name="a">Open <b>the</b> %1$s, don\\\'t</string>\n'
        '    <plurals name="p">\n'
        '        <item quantity="one">%d file</item>\n        <item quantity="other">%d files</item>\n    </plurals>\n'
        '    <string-array name="l">\n        <item>Now</item>\n    </string-array>\n'
        '    <string name="r">@string/a</string>\n'
        "</resources>\n",
        (
            ("Now", "NOW"), ("Open", "OPEN"), (">the<", ">THE<"), ("don", "DON"), ("'t<", "'T<"), (" file", " FILE"),
            ("FILEs", "FILES"),
        ),
    ),
    "a.strings": ('/* a */\n"open" = "Open \\"%@\\"";\n', (("Open", "OPEN"),)),
    "a.properties": ("# a\nopen=Open \\u00fc {0}\n", (("Open \\u00fc", "OPEN \\u00dc"),)),
    "b.properties": ("# a\nopen=Open ü {0}\n", (("Open ü", "OPEN Ü"),)),
    "a.resx": (
        '<?xml version="1.0" encoding="utf-8"?>\n<root>\n  <data name="a" xml:space="preserve"><value>Open</value>\n'
        '  </data>\n  <data name="&gt;&gt;a.Name" xml:space="preserve"><value>a</value>\n  </data>\n'
        '  <data name="b" type="Point" xml:space="preserve"><value>a</value>\n  </data>\n</root>\n',
        (("Open", "OPEN"),),
    ),
    "a.yml": (
        "a:  # c\n  b: Open %{n}\n  c: 5\n  d: '1'\n  e:\n    - |\n      Save\n    - \"x\"\n  f:\n    g: 6\n",
        (("Open", "OPEN"), ("Save", "SAVE"), ('x"', 'X"')),
    ),
    "a.ts": (
        '<?xml version="1.0" encoding="utf-8"?>\n<!DOCTYPE TS>\n<TS version="2.1" language="de">\n<context>\n'
        "    <name>M</name>\n    <message>\n        <source>Open %1</source>\n"
        '        <translation type="unfinished"></translation>\n    </message>\n    <message>\n'
        "        <source>Done</source>\n        <translation>Fertig</translation>\n    </message>\n"
        "</context>\n</TS>\n",
        (('"unfinished"><', '"unfinished">OPEN %1<'),),
    ),
    "b.md": (
        "+++\na = 'b'\n+++\n- [ ] a &lt;b&gt; {x[0]} %*d\u00a0c&nbsp;[^1] [![d](e.png)](f)\n\n"
        "| g \\| h |\n| ----- |\n| i     |\n",
        ((" a &lt;b", " A &lt;b"), ("c&", "C&"), ("[d", "[D"), ("g \\| h", "G \\| H"), (" i ", " I ")),
    ),
    "c.md": ("# a\r\n\r\nb\r\n", (("a", "A"), ("b\r", "B\r"))),
    "a.md": (
        "# Title *one*\n\n- [Open **it**](https://a.org) and `file` 5 * 3\n\n```sh\nmake\n```\n\nSee [a][b].\n\n[b]: https://a.org\n",
        (("See [a", "SEE [A"), ("Title *one", "TITLE *ONE"), ("Open **it", "OPEN **IT"), ("and", "AND")),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", APPS)
def test_apps_are_translated_by_translate_toolkit(name: str, tmp_path: Path) -> None:
    pytest.importorskip("translate.storage.factory", reason="needs the extra formats")
    before, changes = APPS[name]
    (tmp_path / name).write_bytes(before.encode())
    found, wanted = filled(tmp_path / name).decode(), before
    found = found.replace("\r", "") if name == "a.resx" else found
    for old, new in changes:
        wanted = wanted.replace(old, new)
    assert found.rstrip() == wanted.rstrip()


@pytest.mark.parametrize("name", ["a.md", "a.yaml", "strings.xml", "a.resx"])
def test_without_the_extra_a_format_is_named(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(module: str) -> None:
        raise ImportError(module)

    monkeypatch.setattr(toolkit_documents, "import_module", fail)
    (tmp_path / name).write_text("<resources/>")
    with pytest.raises(InputError, match=r"translate-toolkit .* pip install 'fairseq-ext\[formats\]'"):
        filled(tmp_path / name)


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("a.docx", "", "an office document"),
        ("a.csv", "a,b", "a table"),
        ("a.mo", "", "a compiled catalogue"),
        ("a.xml", "<a/>", "markup or a program"),
        ("a.ts", "import a from 'b'", "no file of Qt Linguist"),
        ("a.txt", '{"a": "b"}', "JSON"),
        ("a.en", "1\n00:00:01,000 --> 00:00:02,500\na", "subtitles"),
        ("a", '# a\n\nmsgid "a"', "a gettext catalogue"),
        ("a", "%PDF-1.4", "PDF"),
        ("a.pl", "#!/usr/bin/perl", "a program"),
    ],
)
def test_what_is_not_text_is_refused_by_name(name: str, content: str, said: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(content)
    with pytest.raises(InputError, match=said):
        format_of(tmp_path / name)


@pytest.mark.parametrize("name", ["a.txt", "a.en", "a.pl", "a.tok.en", "a", "corpus.sh", "a.out"])
def test_what_is_text_stays_text(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text("{ a } [1] # - 1. <b> 00:00\n")
    assert format_of(tmp_path / name) == TEXT
