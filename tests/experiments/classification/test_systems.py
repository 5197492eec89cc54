"""Systems, runs and measurements as the file of a classification experiment says them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from fairseq_ext.experiments.classification.config import ClassificationExperiment, load_config
from fairseq_ext.experiments.classification.systems import RobertaSystem
from fairseq_ext.inputs.errors import InputError
from fairseq_ext.recipes.config import Run
from tests.experiments.classification.small_classification_experiment import ADAPTERS, write_classification_experiment

BASE = {"arch": "roberta_tiny"}


def config_of(folder: Path, systems: dict[str, Any] | None = None, **changes: Any) -> ClassificationExperiment:
    if systems is not None:
        changes = {"train": {"systems": {"base": BASE, **systems}}, "evaluate": {}, **changes}
    return load_config(write_classification_experiment(folder, **changes))


def start_of(config: ClassificationExperiment, run: Run) -> str | None:
    start = config.start_of(run)
    return start.name if start else None


def test_systems_know_what_they_train(tmp_path: Path) -> None:
    def facts(system: RobertaSystem) -> tuple[str | None, int | None, int | None, int]:
        return system.tuning, system.bottleneck_dim, system.top_layers, len(system.tasks)

    systems = config_of(tmp_path).systems
    assert {name: facts(system) for name, system in systems.items()} == {
        "base": (None, None, None, 0),
        "full": ("full", None, None, 4),
        "top": ("top", None, 1, 1),
        "adapters": ("adapters", 4, None, 4),
    }
    assert [name for name, system in systems.items() if system.is_base] == ["base"]
    # fairseq does not know these.
    assert not {"tasks", "in_sequence", "checkpoint"} & systems["adapters"].system.options.keys()


def test_there_is_a_run_for_each_task_and_seed(tmp_path: Path) -> None:
    config = config_of(tmp_path, {"x": {**ADAPTERS, "tasks": ["size", "place"], "seeds": [1, 2]}, "y": ADAPTERS})
    names = {name: [run.name for run in runs] for name, runs in config.runs.items()}
    assert names == {
        "base": ["base"],
        "x": ["x@size@1", "x@place@1", "x@size@2", "x@place@2"],
        "y": ["y@place", "y@verb", "y@same", "y@size"],
    }
    run = config.runs["x"][-1]
    assert (run.domain, run.seed, run.system.name) == ("place", 2, "x")
    assert [run.name for run in config.task_runs] == [*names["x"], *names["y"]]


def test_in_a_sequence_each_task_starts_from_the_one_before(tmp_path: Path) -> None:
    sequence = {**ADAPTERS, "in_sequence": True, "seeds": [1, 2], "tasks": ["size", "place"]}
    config = config_of(tmp_path, {"x": sequence, "y": ADAPTERS})
    starts = {run.name: start_of(config, run) for run in config.task_runs}
    assert starts == {
        "x@size@1": "base", "x@place@1": "x@size@1", "x@size@2": "base", "x@place@2": "x@size@2",
        "y@place": "base", "y@verb": "base", "y@same": "base", "y@size": "base",
    }  # fmt: skip
    assert start_of(config, config.runs["base"][0]) is None


def test_a_run_starts_from_the_base_of_its_seed(tmp_path: Path) -> None:
    config = config_of(tmp_path, {"base": {**BASE, "seeds": [1, 2]}, "x": {**ADAPTERS, "seeds": [2]}})
    assert start_of(config, config.runs["x"][0]) == "base@2"
    with pytest.raises(InputError, match=r"systems: x: from: no run of 'base' has the seed or domain of x@place"):
        config_of(tmp_path, {"base": {**BASE, "seeds": [1, 2]}, "x": {**ADAPTERS, "seeds": [3]}})


@pytest.mark.parametrize(
    ("system", "message"),
    [
        ({**BASE, "uses_teacher": True}, "x: uses_teacher: is for translation"),
        ({**BASE, "tasks": ["place"]}, "x: tasks: goes with an arch roberta_houlsby_adapter"),
        ({**BASE, "in_sequence": False}, "x: in_sequence: goes with an arch"),
        ({"checkpoint": "model.pt", "from": "base"}, "x: checkpoint: is not trained, so it has no from"),
        ({"checkpoint": 2}, "x: checkpoint: expected text, got 2"),
        ({**ADAPTERS, "from": None}, "x: from: is missing; tasks are learned on a trained masked language model"),
        ({**ADAPTERS, "from": "y"}, "x: from: 'y' is no masked language model; .* there are base"),
        ({**ADAPTERS, "checkpoint": "model.pt"}, "x: checkpoint: is for a base"),
        ({**ADAPTERS, "data": "data-bin"}, "x: data: is for a base"),
        ({**ADAPTERS, "tasks": ["other"]}, "x: tasks: 'other' is unknown; choose one of place, verb, same, size"),
        ({**ADAPTERS, "tasks": ["size", "size"]}, "x: tasks: a task is named twice"),
        ({**ADAPTERS, "tasks": "size"}, "x: tasks: expected a list of tasks, got 'size'"),
        ({**ADAPTERS, "tuning": "lora"}, "x: tuning: 'lora' is unknown; choose one of adapters, norms, top, full"),
        ({**ADAPTERS, "tuning": "top"}, "x: top-layers: is missing"),
        ({**ADAPTERS, "tuning": "full", "in_sequence": True}, "x: in_sequence: tuning: full changes the base"),
        ({**ADAPTERS, "in_sequence": "no"}, "x: in_sequence: expected true or false, got 'no'"),
        ({**ADAPTERS, "batch-size": None}, "x: batch-size: is missing"),
        ({**ADAPTERS, "batch-size": 0}, "x: batch-size: expected a whole number above 0, got 0"),
        ({**ADAPTERS, "max-epoch": None}, "x: max-epoch: is missing; the learning rate falls to 0"),
    ],
)
def test_mistakes_in_systems_are_named(tmp_path: Path, system: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        config_of(tmp_path, {"x": system, "y": ADAPTERS})


@pytest.mark.parametrize(
    ("evaluate", "message"),
    [
        ({"batch_size": 0}, "evaluate: batch_size: 0 is too small"),
        ({"batches": 3}, "evaluate: unknown key 'batches'; allowed are batch_size, cpu, reading"),
    ],
)
def test_mistakes_in_what_is_measured_are_named(tmp_path: Path, evaluate: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        config_of(tmp_path, evaluate=evaluate)
