"""The command that normalises text to translate."""

from __future__ import annotations

import io
import subprocess
import sys
from pathlib import Path

import pytest

from fairseq_ext.experiments.translation.normalise_text import main
from fairseq_ext.inputs.errors import InputError
from tests.small_corpus import write_config, write_corpora

SCRIPT = Path(__file__).parents[3] / "data-prep" / "normalise.py"


def _normalise(folder: Path, text: bytes, *options: str, **changes: object) -> subprocess.CompletedProcess[bytes]:
    config = write_config(folder / "c.yaml", write_corpora(folder / "corpora"), **changes)
    command = [sys.executable, str(SCRIPT), str(config), *options]
    return subprocess.run(command, input=text, capture_output=True, check=False)


@pytest.mark.parametrize(
    ("changes", "options", "expected"),
    [
        ({}, [], "„a“, 5 % …"),
        ({"clean": {"normalise": {}}}, [], '"a," 5% ...'),
        ({"clean": {"normalise": {}}}, ["--lang", "de"], '"a", 5% ...'),
    ],
)
def test_text_is_normalised_as_configured(changes: dict, options: list[str], expected: str, tmp_path: Path) -> None:
    result = _normalise(tmp_path, "„a“,  5 % …\n\nb\n".encode(), *options, **changes)
    assert result.stdout.decode() == f"{expected}\n\nb\n"


def test_text_is_mended_as_by_import(tmp_path: Path) -> None:
    text = "\ufeffone\0two\x1f\r\n a\u2028b\ufeff\n\n\x01\nlast"
    for changes in ({}, {"clean": {"normalise": {}}}):
        result = _normalise(tmp_path, text.encode(), **changes)
        assert result.stdout.decode() == "one two\na b\n\n\nlast\n"


def test_bad_utf8_names_the_line(tmp_path: Path) -> None:
    result = _normalise(tmp_path, b"a\n\xff\n")
    assert result.returncode == 1
    assert result.stderr == b"standard input, line 2: is not UTF-8; convert the text to UTF-8\n"


@pytest.mark.parametrize("text", ["＜domain:a＞ b", "<domain:ａ> b", "<dom\ufeffain:a> b", "<domain:a> ＜domain:a＞"])
def test_text_that_becomes_a_tag_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    changes = {"clean": {"normalise": {"unicode": "NFKC", "punctuation": None}}}
    config = write_config(tmp_path / "c.yaml", write_corpora(tmp_path / "corpora"), **changes)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(f"<domain:a> as it is\n{text}\n".encode())))
    with pytest.raises(InputError, match="standard input, line 2: holds a domain's tag in odd characters"):
        main([str(config)])


def test_a_reader_that_leaves_ends_it_quietly(tmp_path: Path) -> None:
    """As in ``normalise.py … | head``."""
    config = write_config(tmp_path / "c.yaml", write_corpora(tmp_path / "corpora"))
    command = [sys.executable, str(SCRIPT), str(config)]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdin.write(b"one\n")
        process.stdin.flush()
        assert process.stdout.readline() == b"one\n"
        process.stdout.close()
        process.stdin.write(b"two\n")
        process.stdin.close()
        assert process.wait() == 141
        assert process.stderr.read() == b""
