import io
from collections.abc import Callable
from pathlib import Path

import pytest

from fairseq_ext.base.errors import InputError
from fairseq_ext.serve.documents.lines import routed_by_file, text_lines

ODD = "a\u2028b\x85c\r\n\n\x0cd\r\n e".encode()
LINES = ["a\u2028b\x85c\r", "", "\x0cd\r", " e"]


@pytest.fixture
def text(tmp_path: Path) -> Path:
    return tmp_path / "text.en"


@pytest.fixture
def stdin(monkeypatch: pytest.MonkeyPatch) -> Callable[[bytes], None]:
    return lambda content: monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(content)))


def test_lines_end_at_line_feeds_and_nowhere_else(text: Path, stdin: Callable[[bytes], None]) -> None:
    for content, lines in ((ODD, LINES), (b"", []), (b"\n", [""]), (b"\n\n", ["", ""]), (b"a\n", ["a"]), (b"a", ["a"])):
        text.write_bytes(content)
        stdin(content)
        assert list(text_lines(text)) == list(text_lines(None)) == lines


@pytest.mark.parametrize(("content", "line"), [(b"a\nb\xffc\n", 2), (b"a\n\nb\0c\n", 3)])
def test_what_is_no_text_is_named(text: Path, stdin: Callable[[bytes], None], content: bytes, line: int) -> None:
    text.write_bytes(content)
    stdin(content)
    for path, name in ((text, text.name), (None, "standard input")):
        with pytest.raises(InputError, match=f"{name}, line {line}: "):
            list(text_lines(path))


@pytest.mark.parametrize(
    ("lines", "domains", "message"),
    [
        (["a", "b", "c"], "law\nlaw\n", "the text, line 3: has no matching line in .*text.en"),
        (["a"], "law\nlaw\n", "text.en, line 2: has no matching line in the text"),
        (["a", "b"], "law\nnews\n", "text.en, line 2: unknown domain 'news'"),
        (["a", "b"], "\nlaw\n", "text.en, line 1: unknown domain ''"),
    ],
)
def test_domains_that_do_not_fit_are_named(text: Path, lines: list[str], domains: str, message: str) -> None:
    text.write_text(domains)
    with pytest.raises(InputError, match=message):
        list(routed_by_file(lines, "the text", text, ["law", "med"]))
