"""Experiment files of classifiers: what they mean, which runs they have."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from fairseq_ext.recipes.classification.config import Classification
from tests.recipes.classification.small_experiment import ADAPTERS, load, write_classification_experiment

BASE = {"arch": "roberta_tiny"}


def config_of(folder: Path, systems: dict[str, Any] | None = None, **changes: Any) -> Classification:
    if systems is not None:
        changes["train"] = {"systems": {"base": BASE, **systems}}
    return load(write_classification_experiment(folder, **changes))


def test_there_is_a_run_for_each_task_and_seed(tmp_path: Path) -> None:
    config = config_of(tmp_path, {"x": {**ADAPTERS, "tasks": ["size", "place"], "seeds": [1, 2]}, "y": ADAPTERS})
    names = {name: [run.name for run in runs] for name, runs in config.runs.items()}
    assert names == {
        "base": ["base"],
        "x": ["x@size@1", "x@place@1", "x@size@2", "x@place@2"],
        "y": ["y@place", "y@verb", "y@same", "y@size"],
    }
    last = config.runs["x"][-1]
    assert (last.domain, last.seed, last.system.name) == ("place", 2, "x")
    assert [run.name for run in config.task_runs] == [*names["x"], *names["y"]]
