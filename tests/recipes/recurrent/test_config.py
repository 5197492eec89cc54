"""Experiment files of word language models: what they mean, and which mistakes are named."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from fairseq_ext.experiments.word_lm.config import GeneralVectors, WordLmExperiment, load_config
from fairseq_ext.experiments.word_lm.kind import stages_of

from fairseq_ext.inputs.errors import InputError
from tests.recipes.recurrent.small_experiment import write_file

TINY = {"arch": "dagru_lm_tiny"}


def load(folder: Path, **changes: Any) -> WordLmExperiment:
    return load_config(write_file(folder, **changes))


def test_models_that_read_word_vectors_are_told_where_they_are(tmp_path: Path) -> None:
    own = {"combination": "wvs", "word_vectors": "own.bin", "missing-vectors": "mean"}
    systems = {"standard": {**TINY, "combination": "none"}, "dagru": TINY, "own": {**TINY, **own}}
    config = load(tmp_path, word_vectors={"file": "v.txt", "missing": "mean"}, train={"systems": systems})
    options = {run.name: run.system.options for run in config.all_runs}
    assert options["standard"] == systems["standard"]
    assert options["dagru"] == {"word-vectors": "v.txt", "missing-vectors": "mean", **TINY}
    assert options["own"] == systems["own"]
    assert [system.combination for system in config.systems.values()] == ["none", "dagru", "wvs"]
    assert config.vector_files == [GeneralVectors(Path("v.txt"), "mean"), GeneralVectors(Path("own.bin"), "mean")]


def test_every_system_is_a_stage(tmp_path: Path) -> None:
    names = [stage.name for stage in stages_of(load(tmp_path))]
    assert names == ["prepare", "standard", "wvs", "dagru", "kneser-ney", "evaluate", "report"]
    config = load(tmp_path, kneser_ney={"order": 3, "discounts": "leave-one-out"}, train={})
    assert [stage.name for stage in stages_of(config)] == ["prepare", "kneser-ney", "evaluate", "report"]
    path = write_file(tmp_path)
    path.write_text(path.read_text().replace("kneser_ney:\n  order: 5\n", ""), encoding="utf-8")
    assert "kneser-ney" not in [stage.name for stage in stages_of(load_config(path))]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"corpora": {"train": "a", "valid": "b"}}, "corpora: the key 'test' is missing"),
        (
            {"word_vectors": {"file": "v", "missing": "random"}},
            "'random' is unknown; choose one of zero, mean",
        ),
        ({"kneser_ney": {"order": 7}}, "kneser_ney: order: 7 is out of range; give 2 to 6"),
        ({"kneser_ney": {"discounts": "none"}}, "discounts: 'none' is unknown; choose one of held-out, leave-one-out"),
        ({"seed": -1}, "seed: -1 is out of range"),
        ({"evaluate": {"claims": []}}, "evaluate: unknown key 'claims'"),
    ],
)
def test_mistakes_are_named(tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        load(tmp_path, **changes)


@pytest.mark.parametrize(
    ("system", "message"),
    [
        ({"arch": "transformer_lm"}, r"x: arch: give one of dagru_lm\*, which carries its state over"),
        ({**TINY, "combination": "wvx"}, "x: combination: 'wvx' is unknown; choose one of none, fixed, wvc"),
        ({**TINY, "missing-vectors": "random"}, "x: missing-vectors: 'random' is unknown; choose one of zero, mean"),
        ({**TINY, "word-vectors": ""}, "x: combination: dagru needs word_vectors; give their file"),
        ({**TINY, "data": "elsewhere"}, "x: data: is not for word language models; take it out"),
        ({**TINY, "uses_teacher": True}, "x: uses_teacher: is not for"),
    ],
)
def test_mistakes_in_systems_are_named(tmp_path: Path, system: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        load(tmp_path, train={"systems": {"x": system}})


def test_word_vectors_that_are_not_given_are_asked_for(tmp_path: Path) -> None:
    path = write_file(tmp_path)
    path.write_text(path.read_text().replace("word_vectors:\n  file: vectors/glove.txt\n", ""), encoding="utf-8")
    with pytest.raises(InputError, match="wvs: combination: wvs needs word_vectors; give their file"):
        load_config(path)
