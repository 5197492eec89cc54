"""Experiment files of re-ranking: what they mean."""

from __future__ import annotations

from pathlib import Path

import pytest

from fairseq_ext.inputs.errors import InputError
from fairseq_ext.recipes.reranking.stages import stages_of
from tests.recipes.reranking.small_experiment import load


def test_without_the_translation_experiment_the_file_and_key_are_named(tmp_path: Path) -> None:
    config = load(tmp_path)
    with pytest.raises(InputError, match=r"reranking\.yaml: translation: work_dir: .*fairseq-ext run"):
        _ = config.domains
    [translate] = [stage for stage in stages_of(config) if stage.name == "translate"]
    with pytest.raises(InputError, match=r"reranking\.yaml: translation: run: 'mix'"):
        translate.steps()
