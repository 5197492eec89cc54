"""The stages of an experiment with classifiers: which there are, and in which order."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from fairseq_ext.experiments import run
from fairseq_ext.experiments.classification.config import load_config
from fairseq_ext.experiments.classification.kind import stages_of
from fairseq_ext.inputs.errors import InputError
from tests.experiments.classification.small_classification_experiment import ADAPTERS, write_classification_experiment

SYSTEMS = ["base", "full", "top", "adapters"]


def outputs_of(folder: Path, last: str, **changes: Any) -> dict[str, list[str]]:
    """The directories of each stage, up to one."""
    stages = stages_of(load_config(write_classification_experiment(folder, **changes)))
    names = [stage.name for stage in stages]
    return {stage.name: [step.output.name for step in stage.steps()] for stage in stages[: names.index(last) + 1]}


def test_stages_come_in_the_order_of_the_work(tmp_path: Path) -> None:
    config = load_config(write_classification_experiment(tmp_path))
    names = [stage.name for stage in stages_of(config)]
    assert names == ["prepare", *SYSTEMS, "evaluate", "analyse", "report"]


def test_a_system_is_trained_for_each_of_its_tasks(tmp_path: Path) -> None:
    outputs = outputs_of(tmp_path, "adapters")
    assert outputs["base"] == ["base"]
    assert outputs["full"] == ["full@place", "full@verb", "full@same", "full@size"]
    assert outputs["top"] == ["top@place"]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"train": {"systems": {"report": {}}}}, "systems: 'report' is the name of a stage"),
        ({"train": {"systems": {"base": {"checkpoint": "no.pt"}}}}, "base: checkpoint: no file no.pt"),
        ({"train": {"systems": {"x": {**ADAPTERS, "from": None}}}}, "x: from: is missing"),
    ],
)
def test_mistakes_are_named_before_anything_runs(tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    path = write_classification_experiment(tmp_path, **{"evaluate": {}, **changes})
    with pytest.raises(InputError, match=message):
        run.main([str(path), "--to", "base"])
    assert not (tmp_path / "work").exists()


def test_a_missing_stage_is_named(tmp_path: Path) -> None:
    path = write_classification_experiment(tmp_path)
    with pytest.raises(InputError, match=r"base: needs .*masked-lm, which the stage prepare makes; run that first"):
        run.main([str(path), "--only", "base"])
    with pytest.raises(InputError, match=r"full: needs .*checkpoint_best\.pt, which the stage base makes"):
        run.main([str(path), "--only", "prepare", "full", "--dry-run"])
