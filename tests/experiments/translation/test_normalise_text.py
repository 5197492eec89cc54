"""The command that normalises text to translate."""

import io
import sys
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from fairseq_ext.base.errors import InputError
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


def test_text_is_normalised_as_configured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    normalised = partial(normalise, tmp_path, monkeypatch)
    text, clean = "„a“,  5 % …\n\nb\n", {"normalise": {}}
    assert normalised(text, {}) == "„a“, 5 % …\n\nb\n"
    assert normalised(text, clean) == '"a," 5% ...\n\nb\n'
    assert normalised(text, clean, "--lang", "de") == '"a", 5% ...\n\nb\n'
    # Text must not become a tag.
    clean = {"normalise": {"unicode": "NFKC", "punctuation": None}}
    with pytest.raises(InputError, match="^standard input, line 2: "):
        normalised("<domain:a> as it is\n＜domain:a＞ b\n", clean)
