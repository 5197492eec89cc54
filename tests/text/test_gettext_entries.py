"""Entries of .po files: what gettext accepts is read, and what it refuses is refused with the line."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fairseq_ext.base.errors import InputError
from fairseq_ext.text.gettext_entries import PoFile

HEADER = 'msgid ""\nmsgstr ""\n"Language: de\\n"\n"Content-Type: text/plain; charset=UTF-8\\n"\n\n'


@pytest.mark.parametrize(
    ("text", "sources"),
    [
        ("", []),
        (HEADER, []),
        ('msgid "a"\nmsgstr ""', ["a"]),
        ('# no header\nmsgid "a"\nmsgstr ""\n', ["a"]),
        ('msgid "a" msgstr "" msgid "b" msgstr ""', ["a", "b"]),
        ('msgid"a"\n\tmsgstr""\nmsgid\t"b"\nmsgstr ""\n', ["a", "b"]),
        ('\x0c\n  msgid "a"\n  msgstr ""\n\x0c\n\x0b\nmsgid "b"\nmsgstr ""\n', ["a", "b"]),
        ('# a\x85b\u2028c\x0c\nmsgid "a\u2028b"\nmsgstr ""\n', ["a\u2028b"]),
        ('msgid ""\n"a"\n  "b" "c"\nmsgstr ""\n""\n', ["abc"]),
        (r'msgid "\a\t\"\\n\n\033\x1b"' + '\nmsgstr ""', ['\a\t"\\n\n\x1b\x1b']),
        (
            '#~ msgid "a"\n#~ msgstr "b"\n#~| msgid "z"\n#~ msgid "c"\n#~ msgstr ""\n\nmsgid "d"\nmsgstr ""\n',
            ["a", "c", "d"],
        ),
        ('# c\n#. e\n#: f:1\n#, fuzzy\n#= g\n#| msgid "o"\n#| "p"\nmsgid "a"\nmsgstr ""\n', ["a"]),
        ('domain "x"\nmsgctxt "c"\nmsgid "a"\nmsgid_plural "b"\nmsgstr[0] ""\nmsgstr [ 1 ] ""\n# end', ["a"]),
        ('msgid "a"\rmsgstr ""\r\r# c\rmsgid "b"\rmsgstr ""\r', ["a", "b"]),
        ('\ufeffmsgid "a"\nmsgstr ""\n', ["a"]),
    ],
)
def test_what_gettext_accepts_is_read(text: str, sources: list[str]) -> None:
    file = PoFile.read(text.encode())
    assert [entry.content.msgid for entry in file.messages] == sources
    assert "".join(entry.text for entry in file.entries) + file.rest == text
    assert all(entry.text[entry.begin :].startswith(("msgid", "msgctxt")) for entry in file.entries)
    assert all(entry.text[entry.translation :].startswith("msgstr") for entry in file.entries)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('msgid "a"\nmsgstr "b\n', "line 2: a string has no end"),
        ('msgid "a"\nmsgstr "\\q"\n', "line 2: a string has no end, or an invalid escape"),
        ('msgid "a"\n\nmsgid "b"\nmsgstr ""\n', "line 1: an entry has"),
        ('msgid "a"\n# c\nmsgstr ""\n', "line 1: an entry has"),
        ('\n\nmsgstr "a"\n', "line 3: an entry has"),
        ('msgid "a"\nmsgstr[0] ""\n', "line 1: an entry has"),
        ('#| msgid "a"\n# c\nmsgid "b"\nmsgstr ""\n', "line 2: an entry has"),
        ('msgid "a"\nmsgstr ""\nand more\n', "line 3: 'and' is no keyword"),
        ('msgid "a"\nmsgstr ""\n\nmsgid "b"', "line 4: an entry has"),
        (HEADER.replace("UTF-8", "nothing"), "encoding 'nothing' is unknown"),
        (b'msgid "\xff"\nmsgstr ""', "not valid utf-8"),
    ],
)
def test_what_gettext_refuses_is_refused_with_its_line(text: str | bytes, said: str) -> None:
    with pytest.raises(InputError, match=said):
        PoFile.read(text if isinstance(text, bytes) else text.encode())


def test_the_header_says_the_encoding() -> None:
    text = (
        "# "
        + "charset=UTF-8" * 999
        + "\n"
        + HEADER.replace("UTF-8", "ISO-8859-1")
        + 'msgid "charset=UTF-8 é"\nmsgstr ""'
    )
    file = PoFile.read(text.encode("latin-1"))
    assert (file.encoding, file.header_field("Language"), file.header_field("Team")) == ("ISO-8859-1", "de", "")
    assert file.messages[0].content.msgid == "charset=UTF-8 é"
    assert PoFile.read(HEADER.replace("UTF-8", "CHARSET").encode()).encoding == "utf-8"
    assert PoFile.read('msgid "charset=ISO-8859-1 é"\nmsgstr ""'.encode()).encoding == "utf-8"


PARTS = [
    'msgid "a"',
    'msgstr ""',
    'msgid_plural "b"',
    'msgstr[0] "c"',
    "# d",
    "#~ ",
    "#, fuzzy",
    '"e"',
    "\n",
    " ",
    "x",
    '"',
]


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(st.sampled_from(PARTS)))
def test_each_text_is_read_whole_or_refused(parts: list[str]) -> None:
    text = "\n".join(parts)
    try:
        file = PoFile.read(text.encode())
    except InputError:
        return
    assert "".join(entry.text for entry in file.entries) + file.rest == text
