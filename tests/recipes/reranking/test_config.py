"""Experiment files of re-ranking: what they mean, and where mistakes are."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from fairseq_ext.inputs.errors import InputError
from fairseq_ext.recipes.dagru import needs_vectors
from fairseq_ext.recipes.reranking.stages import stages_of
from tests.recipes.reranking.small_experiment import TRANSLATION, load, write_domains

TINY = {"arch": "dagru_lm_tiny"}


def test_every_language_model_is_a_stage_a_row_and_a_training_a_domain(tmp_path: Path) -> None:
    config = load(tmp_path)
    write_domains(tmp_path, "bank", "garden")
    names = [stage.name for stage in stages_of(config)]
    assert names == ["prepare", "standard", "dagru", "kneser-ney", "translate", "rerank", "report"]
    assert config.compared_names == ["first-best", "list", "kneser-ney", "standard", "dagru"]
    assert [run.name for run in config.runs["dagru"]] == ["dagru@bank", "dagru@garden"]
    assert [needs_vectors(system) for system in config.systems.values()] == [False, True]


def test_without_the_translation_experiment_the_file_and_key_are_named(tmp_path: Path) -> None:
    config = load(tmp_path)
    with pytest.raises(InputError, match=r"reranking\.yaml: translation: work_dir: .*fairseq-ext run"):
        _ = config.domains
    [translate] = [stage for stage in stages_of(config) if stage.name == "translate"]
    with pytest.raises(InputError, match=r"reranking\.yaml: translation: run: 'mix'"):
        translate.steps()


def test_an_output_that_is_not_there_is_noticed_before_anything_is_trained(tmp_path: Path) -> None:
    config = load(tmp_path, translation={"work_dir": str(tmp_path / "work"), **TRANSLATION, "outputs": ["mix"]})
    write_domains(tmp_path, "bank")
    [rerank] = [stage for stage in stages_of(config) if stage.name == "rerank"]
    with pytest.raises(InputError, match=r"outputs: 'mix' has no .*translations/mix/bank\.de"):
        rerank.steps()


@pytest.mark.parametrize(
    ("changes", "key"),
    [
        ({"translation": {"work_dir": "x", **TRANSLATION, "nbest": 1}}, "translation: nbest"),
        ({"translation": {"work_dir": "x", "run": "mix"}}, "translation: target_lang"),
        ({"translation": {"work_dir": "x", **TRANSLATION, "options": ["beam"]}}, "translation: options"),
        ({"translation": {"work_dir": "x", **TRANSLATION, "outputs": ["list"]}}, "translation: outputs"),
        ({"translation": {"work_dir": "x", **TRANSLATION, "outputs": ["dagru"]}}, "train: systems: dagru"),
        ({"kneser_ney": {"order": 9}}, "kneser_ney: order"),
        ({"train": {"systems": {"a": {**TINY, "seeds": [1, 2]}}}}, "train: systems: a: seeds"),
        ({"train": {"systems": {"a": {"arch": "transformer_lm"}}}}, "train: systems: a: arch"),
        ({"train": {"systems": {"a": {**TINY, "combination": "sum"}}}}, "train: systems: a: combination"),
        ({"train": {"systems": {"oracle": TINY}}}, "train: systems: oracle"),
        ({"train": {}, "kneser_ney": None, "compare": {"a": "list"}}, "compare"),
        ({"rerank": {"restarts": -1}}, "rerank: restarts"),
        ({"evaluate": {}}, "unknown key 'evaluate'"),
    ],
)
def test_mistakes_are_named(tmp_path: Path, changes: dict[str, Any], key: str) -> None:
    with pytest.raises(InputError) as caught:
        load(tmp_path, **changes)
    assert str(caught.value).startswith(f"{tmp_path / 'reranking.yaml'}: {key}")
