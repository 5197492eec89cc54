"""The stages of an experiment with hierarchical adapters: which there are, in which order, and what they need."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from fairseq_ext.engine.steps import Step
from fairseq_ext.recipes.hierarchy.stages import stages_of
from fairseq_ext.recipes.registry import load_experiment
from tests.recipes.small_lm_experiment import ADAPTERS, write_lm_experiment


def steps_of(folder: Path, **changes: Any) -> dict[str, list[Step]]:
    _, experiment = load_experiment(write_lm_experiment(folder, **changes))
    return {stage.name: stage.steps() for stage in stages_of(experiment)}


def test_a_given_checkpoint_is_not_trained(tmp_path: Path) -> None:
    (tmp_path / "gpt2.pt").touch()
    systems = {"gpt2": {"checkpoint": str(tmp_path / "gpt2.pt")}, "x": {**ADAPTERS, "from": "gpt2", "tree": "induced"}}
    steps = steps_of(tmp_path, train={"systems": systems}, evaluate={})
    assert steps["gpt2"] == []
    assert tmp_path / "gpt2.pt" in steps["x"][0].inputs
    assert tmp_path / "gpt2.pt" in steps["tree"][0].inputs
