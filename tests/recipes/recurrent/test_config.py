"""Experiment files of recurrent language models: what they mean, and where mistakes are."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from fairseq_ext.inputs.errors import InputError
from fairseq_ext.recipes.dagru import combination_of
from fairseq_ext.recipes.recurrent.stages import stages_of
from tests.recipes.recurrent.small_experiment import load, write_file

TINY = {"arch": "dagru_lm_tiny"}


def test_models_that_read_word_vectors_have_their_file(tmp_path: Path) -> None:
    own = {"combination": "wvs", "word_vectors": "own.bin", "missing-vectors": "mean"}
    systems = {"standard": {**TINY, "combination": "none"}, "dagru": TINY, "own": {**TINY, **own}}
    config = load(write_file(tmp_path, word_vectors={"file": "v.txt", "missing": "mean"}, train={"systems": systems}))
    options = {run.name: run.system.options for run in config.all_runs}
    assert options["standard"] == systems["standard"]
    assert options["dagru"] == {"word-vectors": "v.txt", "missing-vectors": "mean", **TINY}
    assert options["own"] == systems["own"]
    assert [combination_of(system) for system in config.systems.values()] == ["none", "dagru", "wvs"]
    assert config.vector_files == ["v.txt", "own.bin"]


def test_every_system_is_a_stage(tmp_path: Path) -> None:
    path = write_file(tmp_path)
    assert [stage.name for stage in stages_of(load(path))] == [
        "prepare", "standard", "wvs", "dagru", "kneser-ney", "evaluate", "report",
    ]  # fmt: skip
    content = yaml.safe_load(path.read_text())
    path.write_text(yaml.safe_dump({**content, "kneser_ney": None}))  # an empty section: all defaults
    assert load(path).kneser_ney is not None
    del content["kneser_ney"]
    path.write_text(yaml.safe_dump(content))
    assert "kneser-ney" not in [stage.name for stage in stages_of(load(path))]


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


def test_word_vectors_that_are_not_given_are_asked_for(tmp_path: Path) -> None:
    path = write_file(tmp_path, word_vectors=None)
    with pytest.raises(InputError, match="wvs: combination: wvs needs word_vectors"):
        load(path)
