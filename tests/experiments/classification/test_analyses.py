"""Which analyses an experiment with tasks asks for, and what they find in toy models."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from fairseq_ext.classifiers.task_data import TaskFacts, write_task_facts
from fairseq_ext.engine.steps import run_steps
from fairseq_ext.experiments.classification.analyses import analysis_steps, differences_step, sequence_step
from fairseq_ext.experiments.classification.config import ClassificationExperiment, load_config
from fairseq_ext.experiments.classification.results import read_results
from fairseq_ext.experiments.classification.task_differences import compare_systems
from tests import toy_tasks
from tests.experiments.classification.small_classification_experiment import ADAPTERS, write_classification_experiment
from tests.toy_task_data import write_checkpoint, write_task


def config_of(folder: Path, **changes: Any) -> ClassificationExperiment:
    return load_config(write_classification_experiment(folder, **changes))


def systems(*names: str) -> dict[str, Any]:
    """A base and some of the small experiment's systems, over two of its tasks."""
    tasks = {"tasks": ["place", "verb"]}
    known = {
        "full": {**ADAPTERS, "tuning": "full", **tasks},
        "adapters": {**ADAPTERS, "bottleneck-dim": 8, "in_sequence": True, **tasks},
    }
    base = {"arch": "roberta_tiny", "tokens-per-sample": 16, "max-update": 6}
    return {"train": {"systems": {"base": base, **{name: known[name] for name in names}}}}


def read(config: ClassificationExperiment, name: str) -> Any:
    return json.loads((config.work_dir / f"analysis/{name}/{name}.json").read_text())


def test_analyses_are_those_that_the_file_gives_reason_for(tmp_path: Path) -> None:
    def names(**changes: Any) -> list[str]:
        return [step.output.name for step in analysis_steps(config_of(tmp_path, **changes))]

    assert names() == ["sequence", "differences"]
    assert names(**systems("adapters")) == ["sequence"]
    assert names(**systems("full")) == []


def test_inputs_are_those_of_the_runs(tmp_path: Path) -> None:
    config = config_of(tmp_path, **systems("full", "adapters"))
    sequence, differences = analysis_steps(config)
    found = [path.relative_to(config.work_dir).as_posix() for path in sequence.inputs]
    runs = [f"systems/adapters@{task}/checkpoint_best.pt" for task in ("place", "verb")]
    assert found == [*runs, "data-bin/place", "data-bin/verb"]
    assert sequence.options["order"] == {"adapters": ["place", "verb"]}
    assert [path.parent.name for path in differences.inputs[:2]] == ["full@place", "full@verb"]


def test_seeds_are_sequences_of_their_own(tmp_path: Path) -> None:
    changes = systems("adapters")
    changes["train"]["systems"]["adapters"]["seeds"] = [1, 2]
    step = sequence_step(config_of(tmp_path, **changes))
    assert step.options["order"] == {"adapters@1": ["place", "verb"], "adapters@2": ["place", "verb"]}


@pytest.mark.parametrize("is_disturbed", [False, True])
def test_earlier_tasks_are_compared_bit_for_bit(tmp_path: Path, is_disturbed: bool) -> None:
    config = config_of(tmp_path, **systems("adapters"))
    for task in ("place", "verb"):
        write_task(config.work_dir / "data-bin" / task)
    first = toy_tasks.randomise(toy_tasks.make_model("place", bottleneck_dim=8), "place")
    second = toy_tasks.started_from(toy_tasks.make_model("verb", bottleneck_dim=8), first.state_dict())
    toy_tasks.train(second, "verb")
    if is_disturbed:
        with torch.no_grad():
            second.tasks["place"].norms[0].bias[0] += 1e-4
    for task, model in {"place": first, "verb": second}.items():
        path = config.work_dir / f"systems/adapters@{task}/checkpoint_best.pt"
        write_checkpoint(path, model, task, bottleneck_dim=8)
    run_steps([sequence_step(config)])
    record = read(config, "sequence")["adapters"]
    assert record["order"] == ["place", "verb"]
    assert record["tasks"]["place"]["same"] == (not is_disturbed)
    assert (record["tasks"]["place"]["largest"] > 0) == is_disturbed
    # The validation and the test set.
    assert record["tasks"]["place"]["examples"] == 11 + 13


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
