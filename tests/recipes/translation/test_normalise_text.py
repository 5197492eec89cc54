"""The command that normalises text to translate."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from fairseq_ext.inputs.errors import InputError
from tests.small_corpus import write_config, write_corpora
from tests.verbs import verb

Normalise = Callable[..., str]


@pytest.fixture
def normalise(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Normalise:
    """What the command makes of what it is given on standard input, with changes to the experiment."""

    def run(text: bytes, *options: str, **changes: object) -> str:
        config = write_config(tmp_path / "c.yaml", write_corpora(tmp_path / "corpora"), **changes)
        printed = io.BytesIO()
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text)))
        monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(printed, encoding="utf-8", newline="", write_through=True))
        verb("normalise")([str(config), *options])
        return printed.getvalue().decode()

    return run


@pytest.mark.parametrize(
    ("changes", "options", "expected"),
    [
        ({}, [], "„a“, 5 % …"),
        ({"clean": {"normalise": {}}}, [], '"a," 5% ...'),
        ({"clean": {"normalise": {}}}, ["--lang", "de"], '"a", 5% ...'),
    ],
)
def test_text_is_normalised_as_configured(
    changes: dict, options: list[str], expected: str, normalise: Normalise
) -> None:
    assert normalise("„a“,  5 % …\n\nb\n".encode(), *options, **changes) == f"{expected}\n\nb\n"


@pytest.mark.parametrize("text", ["＜domain:a＞ b", "<domain:a> ＜domain:a＞"])
def test_text_that_becomes_a_tag_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    changes = {"clean": {"normalise": {"unicode": "NFKC", "punctuation": None}}}
    config = write_config(tmp_path / "c.yaml", write_corpora(tmp_path / "corpora"), **changes)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(f"<domain:a> as it is\n{text}\n".encode())))
    with pytest.raises(InputError, match="standard input, line 2: holds a domain's tag in odd characters"):
        verb("normalise")([str(config)])
