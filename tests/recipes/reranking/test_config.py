"""Experiment files of re-ranking: what they mean."""

from __future__ import annotations

from pathlib import Path

import pytest

from fairseq_ext.inputs.errors import InputError
from fairseq_ext.recipes.dagru import needs_vectors
from fairseq_ext.recipes.reranking.stages import stages_of
from tests.recipes.reranking.small_experiment import load, write_domains


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
