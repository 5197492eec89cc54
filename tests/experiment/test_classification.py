"""Systems, runs, sweep and measurements as the file of a classification experiment says them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from fairseq_ext.errors import InputError
from fairseq_ext.experiment.classification import (
    TUNINGS,
    Ablation,
    RobertaSystem,
    evaluation_of,
    roberta_runs_of,
    roberta_start_of,
    roberta_system_of,
    roberta_systems_of,
    sweep_of,
    sweep_runs_of,
    task_runs_of,
)
from fairseq_ext.experiment.classification_config import ClassificationExperiment, load_classification_config
from fairseq_ext.experiment.runs import Run
from fairseq_ext.modules import task_parameters
from tests.small_classification_experiment import ADAPTERS, write_classification_experiment

BASE = {"arch": "roberta_tiny"}


def config_of(folder: Path, systems: dict[str, Any] | None = None, **changes: Any) -> ClassificationExperiment:
    if systems is not None:
        changes = {"train": {"systems": {"base": BASE, **systems}}, "sweep": {}, "evaluate": {}, **changes}
    return load_classification_config(write_classification_experiment(folder, **changes))


def start_of(config: ClassificationExperiment, run: Run) -> str | None:
    start = roberta_start_of(config, run)
    return start.name if start else None


def test_systems_know_what_they_train(tmp_path: Path) -> None:
    def facts(system: RobertaSystem) -> tuple[str | None, int | None, int | None, int]:
        return system.tuning, system.bottleneck_dim, system.top_layers, len(system.tasks)

    systems = roberta_systems_of(config_of(tmp_path))
    assert {name: facts(system) for name, system in systems.items()} == {
        "base": (None, None, None, 0),
        "full": ("full", None, None, 4),
        "top": ("top", None, 1, 1),
        "adapters": ("adapters", 4, None, 4),
    }
    assert [name for name, system in systems.items() if system.is_base] == ["base"]
    # fairseq does not know these.
    assert not {"tasks", "in_sequence", "checkpoint"} & systems["adapters"].system.options.keys()


def test_ways_of_tuning_are_those_of_the_model() -> None:
    assert tuple(task_parameters.TUNINGS) == TUNINGS


def test_there_is_a_run_for_each_task_and_seed(tmp_path: Path) -> None:
    config = config_of(tmp_path, {"x": {**ADAPTERS, "tasks": ["size", "place"], "seeds": [1, 2]}, "y": ADAPTERS})
    assert [run.name for run in roberta_runs_of(config, "x")] == ["x@size@1", "x@place@1", "x@size@2", "x@place@2"]
    assert [run.name for run in roberta_runs_of(config, "y")] == ["y@place", "y@verb", "y@same", "y@size"]
    [run] = roberta_runs_of(config, "x@place@2")
    assert (run.domain, run.seed, run.system.name) == ("place", 2, "x")
    assert roberta_system_of(config, "x@place@2").tasks == ("size", "place")
    assert len(task_runs_of(config)) == 8
    with pytest.raises(InputError, match=r"systems: x: no run 'x@verb'; there are x@size@1, "):
        roberta_runs_of(config, "x@verb")
    with pytest.raises(InputError, match=r"train: systems: no 'z'; there are base, x, y"):
        roberta_runs_of(config, "z")


def test_in_a_sequence_each_task_starts_from_the_one_before(tmp_path: Path) -> None:
    sequence = {**ADAPTERS, "in_sequence": True, "seeds": [1, 2], "tasks": ["size", "place"]}
    config = config_of(tmp_path, {"x": sequence, "y": ADAPTERS})
    starts = {run.name: start_of(config, run) for run in task_runs_of(config)}
    assert starts == {
        "x@size@1": "base", "x@place@1": "x@size@1", "x@size@2": "base", "x@place@2": "x@size@2",
        "y@place": "base", "y@verb": "base", "y@same": "base", "y@size": "base",
    }  # fmt: skip
    assert start_of(config, roberta_runs_of(config, "base")[0]) is None


def test_a_run_starts_from_the_base_of_its_seed(tmp_path: Path) -> None:
    config = config_of(tmp_path, {"base": {**BASE, "seeds": [1, 2]}, "x": {**ADAPTERS, "seeds": [2]}})
    assert start_of(config, roberta_runs_of(config, "x")[0]) == "base@2"


def test_the_sweep_changes_one_option_and_starts_from_the_base(tmp_path: Path) -> None:
    adapters = {**ADAPTERS, "in_sequence": True, "adapter_init_scale": 3.0}
    sweep = {"system": "x", "option": "adapter-init-scale", "values": ["1e-7", 1], "tasks": ["verb"]}
    config = config_of(tmp_path, {"x": adapters}, sweep=sweep)
    runs = sweep_runs_of(config)
    assert {task: [run.name for run in by_value.values()] for task, by_value in runs.items()} == {
        "verb": ["x.adapter-init-scale.1e-07@verb", "x.adapter-init-scale.1@verb"]
    }
    assert list(runs["verb"]) == [1e-7, 1.0]
    run = runs["verb"][1e-7]
    assert (run.domain, start_of(config, run)) == ("verb", "base")
    own = {key: value for key, value in ADAPTERS.items() if key != "from"}
    assert run.system.options == {**own, "adapter-init-scale": "1e-07"}
    assert sweep_runs_of(config_of(tmp_path, {"x": adapters})) == {}


def test_the_ablation_is_of_all_tasks_if_none_is_named(tmp_path: Path) -> None:
    evaluation = evaluation_of(config_of(tmp_path))
    assert evaluation.ablation == Ablation("adapters", ["place", "verb", "same", "size"])
    assert evaluation.cpu
    assert evaluation_of(config_of(tmp_path, evaluate={})).ablation is None


@pytest.mark.parametrize(
    ("system", "message"),
    [
        ({**BASE, "uses_teacher": True}, "x: uses_teacher: is for translation"),
        ({**BASE, "tasks": ["place"]}, "x: tasks: goes with an arch roberta_houlsby_adapter"),
        ({**BASE, "in_sequence": False}, "x: in_sequence: goes with an arch"),
        ({"checkpoint": "model.pt", "from": "base"}, "x: checkpoint: is not trained, so it has no from"),
        ({"checkpoint": 2}, "x: checkpoint: expected the path of a checkpoint, got 2"),
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
    config = config_of(tmp_path, {"x": system, "y": ADAPTERS})
    with pytest.raises(InputError, match=message):
        roberta_systems_of(config)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"system": "base"}, "sweep: system: 'base' is unknown; choose one of full, top, adapters"),
        ({"tasks": ["other"]}, "sweep: tasks: 'other' is unknown"),
        ({"values": [1, 1.0]}, "sweep: values: a value is given twice"),
        ({"values": ["small"]}, "sweep: values: expected a number, got 'small'"),
    ],
)
def test_mistakes_in_the_sweep_are_named(tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    sweep = {"system": "adapters", "option": "adapter-init-scale", "values": [0.1], "tasks": ["place"], **changes}
    with pytest.raises(InputError, match=message):
        sweep_of(config_of(tmp_path, sweep=sweep))


@pytest.mark.parametrize(
    ("evaluate", "message"),
    [
        ({"ablation": {"system": "full"}}, "evaluate: ablation: system: 'full' has no adapters to leave out"),
        ({"ablation": {"system": "adapters", "tasks": ["other"]}}, "ablation: tasks: 'other' is unknown"),
        ({"batch_size": 0}, "evaluate: batch_size: 0 is too small"),
        ({"batches": 3}, "evaluate: unknown key 'batches'; allowed are ablation, batch_size, cpu, reading"),
    ],
)
def test_mistakes_in_what_is_measured_are_named(tmp_path: Path, evaluate: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        evaluation_of(config_of(tmp_path, evaluate=evaluate))
