"""Experiment files of re-ranking: what they mean, and which mistakes are named."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from fairseq_ext.experiments.reranking.config import RerankingExperiment, read_config
from fairseq_ext.experiments.reranking.kind import stages_of
from fairseq_ext.inputs.errors import InputError
from fairseq_ext.inputs.yaml_file import load_yaml
from tests.experiments.reranking.small_reranking_experiment import TRANSLATION, write_file

TINY = {"arch": "dagru_lm_tiny"}


def load(folder: Path, **changes: Any) -> RerankingExperiment:
    path = write_file(folder, **changes)
    content = dict(load_yaml(path))
    del content["kind"]
    return read_config(content, path)


def test_every_language_model_is_a_stage_a_row_and_a_training_a_domain(tmp_path: Path) -> None:
    config = load(tmp_path)
    (tmp_path / "work" / "data-bin").mkdir(parents=True)
    (tmp_path / "work" / "data-bin" / "domains.txt").write_text("bank\ngarden\n")
    names = [stage.name for stage in stages_of(config)]
    assert names == ["prepare", "standard", "dagru", "kneser-ney", "translate", "rerank", "report"]
    assert config.rows == ["list", "kneser-ney", "standard", "dagru"]
    assert [run.name for run in config.runs("dagru")] == ["dagru@bank", "dagru@garden"]
    assert [config.needs_vectors(name) for name in config.systems] == [False, True]


def test_without_the_translation_experiment_the_command_to_run_is_named(tmp_path: Path) -> None:
    config = load(tmp_path)
    with pytest.raises(InputError, match=r"translation: work_dir: .*work has no prepared data .*run_experiment\.sh"):
        _ = config.domains
    [translate] = [stage for stage in stages_of(config) if stage.name == "translate"]
    with pytest.raises(InputError, match=r"reranking\.yaml: translation: run: 'mix' is not trained"):
        translate.steps()


def test_an_output_that_is_not_there_is_noticed_before_anything_is_trained(tmp_path: Path) -> None:
    config = load(tmp_path, translation={"work_dir": str(tmp_path / "work"), **TRANSLATION, "outputs": ["mix"]})
    (tmp_path / "work" / "data-bin").mkdir(parents=True)
    (tmp_path / "work" / "data-bin" / "domains.txt").write_text("bank\n")
    [rerank] = [stage for stage in stages_of(config) if stage.name == "rerank"]
    with pytest.raises(InputError, match=r"outputs: 'mix' has no .*translations/mix/bank\.de; run the stage translate"):
        rerank.steps()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"translation": {"work_dir": "x", **TRANSLATION, "nbest": 1}}, "translation: nbest: 1 is too small; give 2"),
        ({"translation": {"work_dir": "x", "run": "mix"}}, "translation: the key 'target_lang' is missing"),
        ({"translation": {"work_dir": "x", **TRANSLATION, "options": ["beam"]}}, "options: expected keys and values"),
        ({"kneser_ney": {"order": 9}}, "kneser_ney: order: 9 is out of range; give 2 to 6"),
        ({"train": {"systems": {"a": {**TINY, "seeds": [1, 2]}}}}, "systems: a: seeds: is not for re-ranking"),
        ({"train": {"systems": {"a": {"arch": "transformer_lm"}}}}, r"systems: a: arch: give one of dagru_lm\*"),
        ({"train": {"systems": {"a": {**TINY, "combination": "sum"}}}}, "systems: a: combination: 'sum' is unknown"),
        ({"train": {"systems": {"oracle": TINY}}}, "systems: 'oracle' is the name of a row or a feature"),
        (
            {"translation": {"work_dir": "x", **TRANSLATION, "outputs": ["list"]}},
            "outputs: 'list' is the name of a row",
        ),
        (
            {"translation": {"work_dir": "x", **TRANSLATION, "outputs": ["dagru"]}},
            "systems: 'dagru' is the name of a row",
        ),
        ({"rerank": {"restarts": -1}}, "rerank: restarts: -1 is too small"),
        ({"evaluate": {}}, "unknown key 'evaluate'"),
    ],
)
def test_mistakes_are_named(tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        load(tmp_path, **changes)


def test_there_is_something_to_re_rank_by(tmp_path: Path) -> None:
    path = write_file(tmp_path, train={})
    content = {key: value for key, value in load_yaml(path).items() if key not in ("kind", "kneser_ney")}
    with pytest.raises(InputError, match="name a language model, or give kneser_ney"):
        read_config(content, path)
