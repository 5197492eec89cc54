import io
from pathlib import Path

import pytest

from fairseq_ext.inputs.errors import InputError
from fairseq_ext.translators.lines import blocks, file_lines, routed_by_file, stream_lines

ODD = "a\u2028b\x85c\r\n\n\x0cd\r\n e".encode()
LINES = ["a\u2028b\x85c\r", "", "\x0cd\r", " e"]


@pytest.fixture
def text(tmp_path: Path) -> Path:
    return tmp_path / "text.en"


def test_lines_end_at_line_feeds_and_nowhere_else(text: Path) -> None:
    text.write_bytes(ODD)
    assert list(file_lines(text)) == list(stream_lines(io.BytesIO(ODD), "it")) == LINES
    for content, count in ((b"", 0), (b"\n", 1), (b"\n\n", 2), (b"a\n", 1), (b"a", 1)):
        text.write_bytes(content)
        assert len(list(file_lines(text))) == len(list(stream_lines(io.BytesIO(content), "it"))) == count


@pytest.mark.parametrize(
    ("content", "message"),
    [(b"a\nb\xffc\n", "line 2: byte 2 is not UTF-8"), (b"a\n\nb\0c\n", "line 3: holds a null byte")],
)
def test_what_is_no_text_is_named(text: Path, content: bytes, message: str) -> None:
    text.write_bytes(content)
    with pytest.raises(InputError, match=f"{text.name}, {message}"):
        list(file_lines(text))
    with pytest.raises(InputError, match=f"standard input, {message}"):
        list(stream_lines(io.BytesIO(content), "standard input"))


def routed(text: Path, lines: list[str], domains: str) -> list[tuple[str, str | None]]:
    text.write_text(domains)
    return list(routed_by_file(lines, "the text", text, ["law", "med"]))


def test_each_line_has_its_domain(text: Path) -> None:
    assert routed(text, ["a", "", " b", ""], "med\r\n\nlaw \nlaw\n") == [
        ("a", "med"), ("", None), (" b", "law"), ("", "law"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("lines", "domains", "message"),
    [
        (["a", "b", "c"], "law\nlaw\n", "the text, line 3: has no counterpart in .*text.en"),
        (["a"], "law\nlaw\n", "text.en, line 2: has no counterpart in the text"),
        (["a", "b"], "law\nnews\n", "text.en, line 2: unknown domain 'news'; there are law, med"),
        (["a", "b"], "\nlaw\n", "text.en, line 1: unknown domain ''"),
        ([""], "news\n", "text.en, line 1: unknown domain 'news'"),
    ],
)
def test_domains_that_do_not_fit_are_named(text: Path, lines: list[str], domains: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        routed(text, lines, domains)


def test_blocks_are_filled_but_for_the_last() -> None:
    lines = [(str(n), None) for n in range(5)]
    assert list(blocks(lines, 2)) == [lines[:2], lines[2:4], lines[4:]]
    assert list(blocks([], 2)) == []
