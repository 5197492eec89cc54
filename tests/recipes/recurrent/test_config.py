"""Experiment files of recurrent language models: what they mean."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.recipes.recurrent.small_experiment import load, write_file


def test_the_former_name_and_removed_keys_are_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write_file(tmp_path, kind="word_lm", evaluate={"reading": "words.md"}, kneser_ney={"discounts": "held-out"})
    assert load(path).systems
    said = capsys.readouterr().err
    assert "kind: word_lm is now recurrent" in said
    assert "reading: is no longer used" in said
    assert "discounts: is no longer used" in said
