"""Accuracies are compared with full fine-tuning where there is one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from fairseq_ext.classifiers.task_data import TaskFacts, write_task_facts
from fairseq_ext.engine.steps import run_steps
from fairseq_ext.experiments.classification.analyses import analysis_steps, differences_step
from fairseq_ext.experiments.classification.config import ClassificationExperiment, load_config
from fairseq_ext.experiments.classification.results import read_results
from fairseq_ext.experiments.classification.task_differences import compare_systems
from tests.experiments.classification.small_classification_experiment import ADAPTERS, write_classification_experiment


def config_of(folder: Path, **changes: Any) -> ClassificationExperiment:
    return load_config(write_classification_experiment(folder, **changes))


def systems(*names: str) -> dict[str, Any]:
    """A base and some of the small experiment's systems, over two of its tasks."""
    tasks = {"tasks": ["place", "verb"]}
    known = {
        "full": {**ADAPTERS, "tuning": "full", **tasks},
        "adapters": {**ADAPTERS, "bottleneck-dim": 8, **tasks},
    }
    base = {"arch": "roberta_tiny", "tokens-per-sample": 16, "max-update": 6}
    return {"train": {"systems": {"base": base, **{name: known[name] for name in names}}}}


def read(config: ClassificationExperiment, name: str) -> Any:
    return json.loads((config.work_dir / f"analysis/{name}/{name}.json").read_text())


def test_there_is_a_comparison_if_a_system_is_fine_tuned_and_another_is_not(tmp_path: Path) -> None:
    def names(**changes: Any) -> list[str]:
        return [step.output.name for step in analysis_steps(config_of(tmp_path, **changes))]

    assert names() == ["differences"]
    assert names(**systems("adapters")) == []
    assert names(**systems("full")) == []


def test_inputs_are_those_of_the_runs(tmp_path: Path) -> None:
    config = config_of(tmp_path, **systems("full", "adapters"))
    [differences] = analysis_steps(config)
    assert [path.parent.name for path in differences.inputs[:2]] == ["full@place", "full@verb"]


def test_differences_are_those_of_accuracies() -> None:
    a, b = np.array([1, 1, 0, 0] * 50), np.array([1, 1, 1, 0] * 50)
    two_runs = a + b
    hits = {
        "full": {"x": (a, 1), "y": (a, 1)},
        "better": {"x": (b, 1), "y": (b, 1), "z": (b, 1)},
        "same": {"x": (a, 1), "y": (a, 1)},
        "mean": {"x": (two_runs, 2)},
    }
    found = compare_systems(hits, "full", resamples=200, seed=1)
    assert found.keys() == {"better", "same", "mean"}
    # What the baseline was not trained for is not compared.
    assert found["better"]["tasks"].keys() == {"x", "y"}
    assert found["better"]["average"]["difference"] == 25
    assert found["better"]["average"]["p"] < 0.05
    assert found["same"]["average"] == {"difference": 0, "p": 1}
    assert found["mean"]["tasks"]["x"]["difference"] == 12.5


def test_differences_read_predictions_and_labels(tmp_path: Path) -> None:
    config = config_of(tmp_path, **systems("full", "adapters"))
    truth = ["b", "a", "b", "a"]
    guesses = {"full@place": [1, 0, 1, 0], "full@verb": [1, 0, 1, 1], "adapters@place": [1, 0, 0, 0],
               "adapters@verb": [1, 0, 1, 1]}  # fmt: skip
    for task in ("place", "verb"):
        folder = config.work_dir / "tasks" / task
        (folder / "label").mkdir(parents=True)
        (folder / "label/test.txt").write_text("".join(f"{label}\n" for label in truth))
        counts = {"train": 4, "valid": 4, "test": 4}
        write_task_facts(folder, TaskFacts("classification", ["a", "b"], num_inputs=1, counts=counts, removed={}))
    for run, guess in guesses.items():
        folder = config.work_dir / "predictions" / run
        folder.mkdir(parents=True)
        np.save(folder / "test.npy", np.eye(2, dtype=np.float32)[guess])
    run_steps([differences_step(config)])
    record = read(config, "differences")
    assert record["baseline"] == "full"
    found = record["systems"]["adapters"]
    assert {task: entry["difference"] for task, entry in found["tasks"].items()} == {"place": -25, "verb": 0}
    assert found["average"]["difference"] == -12.5
    # Four sentences stand for no others.
    assert found["average"]["p"] is found["tasks"]["place"]["p"] is None
    assert read_results(config).records.mean("adapters", "p") is None
