"""What a run's predictions are measured as, and which runs are."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from fairseq_ext.classifiers.predictions import ExampleSet
from fairseq_ext.engine.steps import run_steps
from fairseq_ext.experiments.classification.config import load_config
from fairseq_ext.experiments.classification.evaluate import evaluation_steps, prediction_step, write_predictions
from fairseq_ext.metrics.classification import measure
from tests import toy_tasks
from tests.experiments.classification.small_classification_experiment import write_classification_experiment
from tests.toy_task_data import COUNTS, write_checkpoint, write_model, write_task


def test_every_run_with_a_task_is_measured(tmp_path: Path) -> None:
    config = load_config(write_classification_experiment(tmp_path))
    names = [step.output.name for step in evaluation_steps(config)]
    assert [name for name in names if name.startswith("full@")] == ["full@place", "full@verb", "full@same", "full@size"]
    assert not any(name.startswith("base") for name in names)
    assert {step.output.parent for step in evaluation_steps(config)} == {tmp_path / "work/predictions"}


def test_another_metric_measures_anew(tmp_path: Path) -> None:
    config = load_config(write_classification_experiment(tmp_path))
    run = next(run for run in config.task_runs if run.name == "full@verb")
    assert prediction_step(config, run).options["metrics"] == ["matthews", "f1"]


def test_a_run_is_measured(tmp_path: Path) -> None:
    config = load_config(write_classification_experiment(tmp_path))
    run = next(run for run in config.task_runs if run.name == "adapters@place")
    data = write_task(config.work_dir / "data-bin/place")
    write_model(config.work_dir / "systems/adapters@place/checkpoint_best.pt", "place", bottleneck_dim=8)
    step = prediction_step(config, run)
    run_steps([step])
    record = json.loads((step.output / "metrics.json").read_text())
    assert record["task"] == "place"
    assert record["labels"] == list(toy_tasks.LABELS)
    assert record["counts"] == COUNTS
    for split in ("valid", "test"):
        logits = np.load(step.output / f"{split}.npy")
        assert logits.shape == (COUNTS[split], 3)
        targets = ExampleSet.load(data, split, toy_tasks.POSITIONS).targets
        assert record["metrics"][split] == measure(["accuracy"], logits, targets, toy_tasks.LABELS).values
        assert record["majority"][split] == np.bincount(targets).max() / COUNTS[split]
    assert record["parameters"]["base_trained"] == 0


def test_a_regression_has_no_majority(tmp_path: Path) -> None:
    data = write_task(tmp_path / "size", labels=())
    checkpoint = write_model(tmp_path / "model.pt", "size", labels=())
    write_predictions(tmp_path, checkpoint, data, ["spearman", "pearson"], cpu=True)
    record = json.loads((tmp_path / "metrics.json").read_text())
    assert record["majority"] == {}
    assert record["metrics"]["test"].keys() == {"spearman", "pearson"}
    assert np.load(tmp_path / "test.npy").shape == (COUNTS["test"], 1)


def test_what_is_constant_is_remarked(tmp_path: Path) -> None:
    data = write_task(tmp_path / "films")
    model = toy_tasks.make_model("films")
    model.classification_heads["films"].out_proj.weight.data.zero_()
    model.classification_heads["films"].out_proj.bias.data[1] = 1
    write_predictions(tmp_path, write_checkpoint(tmp_path / "model.pt", model, "films"), data, ["accuracy"], cpu=True)
    record = json.loads((tmp_path / "metrics.json").read_text())
    assert record["remarks"] == {"valid": ["every prediction is 'good'"], "test": ["every prediction is 'good'"]}


@pytest.mark.parametrize("batch_size", [1, 5])
def test_the_batch_size_makes_no_difference(tmp_path: Path, batch_size: int) -> None:
    data = write_task(tmp_path / "films")
    checkpoint = write_model(tmp_path / "model.pt", "films")
    for size in (64, batch_size):
        (tmp_path / str(size)).mkdir()
        write_predictions(tmp_path / str(size), checkpoint, data, ["accuracy"], batch_size=size, cpu=True)
    one, other = (np.load(tmp_path / str(size) / "test.npy") for size in (64, batch_size))
    np.testing.assert_allclose(one, other, atol=2e-6)
