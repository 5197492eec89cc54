"""Messages of catalogues: as polib reads them, but in one pass, and never more than a file holds."""

import struct
from pathlib import Path

import polib
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fairseq_ext.corpora.gettext_messages import Message, read_compiled, read_source

HEADER = b'msgid ""\nmsgstr "Content-Type: text/plain; charset=utf-8\\n"\n\n'
# Neither what ends polib's lines, nor what separates context and plural in a compiled catalogue.
TEXT = st.text(
    st.characters(codec="utf-8", exclude_characters="\0\4\x0b\x0c\r\x1c\x1d\x1e\x85\u2028\u2029"), min_size=1
)
ENTRIES = st.lists(
    st.builds(
        polib.POEntry,
        msgid=TEXT,
        msgstr=TEXT | st.just(""),
        msgctxt=st.none() | TEXT,
        comment=st.sampled_from(["", "Default: x", "one\ntwo"]),
        flags=st.sampled_from([[], ["fuzzy"], ["c-format"], ["c-format", "fuzzy"]]),
        obsolete=st.booleans(),
        occurrences=st.sampled_from([[], [("a.c", "3")]]),
        previous_msgid=st.none() | TEXT,
    ),
    max_size=5,
    unique_by=lambda entry: (entry.msgid, entry.msgctxt),
)


def as_message(entry: polib.POEntry | polib.MOEntry) -> Message:
    return Message(
        entry.msgid,
        entry.msgstr,
        entry.comment or "",
        "fuzzy" in entry.flags,
        bool(entry.obsolete),
        bool(entry.msgid_plural),
    )


@settings(max_examples=25, deadline=None)
@given(ENTRIES)
def test_source_is_read_as_polib_does(entries: list[polib.POEntry]) -> None:
    catalogue = polib.POFile()
    catalogue.extend(entries)
    text = str(catalogue)
    assert list(read_source(HEADER + text.encode())) == [as_message(entry) for entry in polib.pofile(text)]


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(ENTRIES)
def test_compiled_is_read_as_polib_does(tmp_path: Path, entries: list[polib.POEntry]) -> None:
    catalogue = polib.POFile()
    catalogue.metadata = {"Content-Type": "text/plain; charset=utf-8"}
    catalogue.extend(entry for entry in entries if entry.msgstr)
    catalogue.save_as_mofile(str(tmp_path / "x.mo"))
    expected = [as_message(entry) for entry in polib.mofile(str(tmp_path / "x.mo"))]
    assert list(read_compiled((tmp_path / "x.mo").read_bytes())) == expected


def test_plurals_are_told() -> None:
    text = 'msgid "a"\nmsgid_plural "b"\nmsgstr[0] "c"\nmsgstr[1] "d"\n\nmsgid "e"\nmsgstr "f"\n'
    assert list(read_source(text.encode())) == [Message("a", "cd", is_plural=True), Message("e", "f")]


@pytest.mark.parametrize("end", ["\n", "\r\n", "\n\n", ""])
def test_line_ends_and_a_byte_order_mark_do_not_matter(end: str) -> None:
    text = '\ufeffmsgid ""\n"a\\n"\n"b"\nmsgstr "c"'.replace("\n", end or "\n") + end
    assert list(read_source(text.encode())) == [Message("a\nb", "c")]


def test_other_ends_of_lines_are_text() -> None:
    odd = "a\u2028b\x85c\rd\x0be"
    assert list(read_source(f'msgid "{odd}"\nmsgstr "x"\n'.encode())) == [Message(odd, "x")]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("/some/where/other.po", "line 1: is neither a comment nor"),
        ('\nmsgid "a"\nmsgstr "b\n', "line 3: is neither"),
        ('msgid "a"b"\n', "line 1: is neither"),
        ('"a"\n', "line 1: a string without a keyword"),
        ('msgstr "a"\n', "line 1: msgstr has no place here"),
        ('msgid "a"\nmsgid "b"\n', "line 2: msgid has no place here"),
        ('msgid "a"\nmsgstr "b"\nmsgstr "c"\n', "line 3: msgstr has no place here"),
        ('msgid "a"\nmsgstr[0] "b"\n', r"line 2: msgstr\[0\] has no place here"),
        ('msgid "a"\n', "the text ends within a message"),
        ('msgid "a" "charset=punycode"\n', "punycode is no charset of catalogues"),
        ('msgid "a" "charset=utf-9"\n', "unknown encoding: utf-9"),
        ('msgid "a" "charset=zlib"\n', "'zlib' is not a text encoding"),
        ('msgid "a" "charset=ascii\u0105"\n', "'ascii' codec can't decode"),
    ],
)
def test_what_is_no_catalogue_is_an_error(text: str, message: str) -> None:
    with pytest.raises((ValueError, LookupError), match=message):
        list(read_source(text.encode()))


def compiled(count: int, text: bytes, length: int) -> bytes:
    """A catalogue whose messages and translations all lie in the same bytes."""
    table = struct.pack("<2I", length, 28 + 8 * count) * count
    return struct.pack("<7I", 0x950412DE, 0, count, 28, 28, 0, 28) + table + text + b"\0"


def test_messages_that_share_their_bytes_are_refused_at_once() -> None:
    # 80,000 messages of 200 kB, 32 GB, in 0.8 MB.
    with pytest.raises(EOFError, match="names more text than it holds"):
        list(read_compiled(compiled(80_000, b"a" * 200_000, 200_000)))
    assert list(read_compiled(compiled(1, b"abc", 3))) == [Message("abc", "abc")]


@pytest.mark.slow
def test_time_does_not_grow_with_the_square_of_a_message() -> None:
    lines = 100_000
    text = b'msgid ""\n' + b'"a"\n' * lines + b'msgstr ""\n' + b'"b"\n' * lines + b"#. c\n" * lines
    [message] = read_source(text)
    assert message == Message("a" * lines, "b" * lines)
