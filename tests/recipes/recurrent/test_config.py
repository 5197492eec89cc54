"""Experiment files of recurrent language models: what they mean, and where mistakes are."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from fairseq_ext.inputs.errors import InputError
from tests.recipes.recurrent.small_experiment import load, write_file

TINY = {"arch": "dagru_lm_tiny"}


def test_the_former_name_and_removed_keys_are_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write_file(tmp_path, kind="word_lm", evaluate={"reading": "words.md"}, kneser_ney={"discounts": "held-out"})
    assert load(path).systems
    said = capsys.readouterr().err
    assert "kind: word_lm is now recurrent" in said
    assert "reading: is no longer used" in said
    assert "discounts: is no longer used" in said


@pytest.mark.parametrize(
    ("changes", "key"),
    [
        ({"word_vectors": {"file": "v", "missing": "random"}}, "word_vectors: missing"),
        ({"kneser_ney": {"order": 7}}, "kneser_ney: order"),
        ({"compare": {"dagru": ["standrad"]}}, "compare"),
    ],
)
def test_mistakes_are_named(tmp_path: Path, changes: dict[str, Any], key: str) -> None:
    path = write_file(tmp_path, **changes)
    with pytest.raises(InputError) as caught:
        load(path)
    assert str(caught.value).startswith(f"{path}: {key}")


@pytest.mark.parametrize(
    ("system", "key"),
    [
        ({"arch": "transformer_lm"}, "arch"),
        ({**TINY, "combination": "wvx"}, "combination"),
        ({**TINY, "word-vectors": 3}, "combination"),
        ({**TINY, "data": "elsewhere"}, "data"),
        ({**TINY, "uses_teacher": True}, "uses_teacher"),
        ({**TINY, "per_domain": True}, "per_domain"),
    ],
)
def test_mistakes_in_systems_are_named(tmp_path: Path, system: dict[str, Any], key: str) -> None:
    path = write_file(tmp_path, train={"systems": {"x": system}})
    with pytest.raises(InputError) as caught:
        load(path)
    assert str(caught.value).startswith(f"{path}: train: systems: x: {key}: ")
