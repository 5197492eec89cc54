"""The command that normalises text to translate."""

from __future__ import annotations

import io
import sys
from pathlib import Path
from typing import Any

import pytest

from fairseq_ext.inputs.errors import InputError
from tests.small_corpus import write_config, write_corpora
from tests.verbs import verb


def normalise(root: Path, monkeypatch: pytest.MonkeyPatch, text: str, clean: dict[str, Any], *options: str) -> str:
    """What the command makes of text on standard input."""
    config = write_config(root / "c.yaml", write_corpora(root / "corpora"), clean=clean)
    printed = io.BytesIO()
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(printed, encoding="utf-8", newline="", write_through=True))
    verb("normalise")([str(config), *options])
    return printed.getvalue().decode()


@pytest.mark.parametrize(
    ("clean", "options", "expected"),
    [
        ({}, [], "„a“, 5 % …"),
        ({"normalise": {}}, [], '"a," 5% ...'),
        ({"normalise": {}}, ["--lang", "de"], '"a", 5% ...'),
    ],
)
def test_text_is_normalised_as_configured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, clean: dict[str, Any], options: list[str], expected: str
) -> None:
    text = "„a“,  5 % …\n\nb\n"
    assert normalise(tmp_path, monkeypatch, text, clean, *options) == f"{expected}\n\nb\n"


def test_text_that_becomes_a_tag_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clean = {"normalise": {"unicode": "NFKC", "punctuation": None}}
    with pytest.raises(InputError, match="standard input, line 2: contains a domain tag"):
        normalise(tmp_path, monkeypatch, "<domain:a> as it is\n＜domain:a＞ b\n", clean)
