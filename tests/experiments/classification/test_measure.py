"""What is measured of a run, and how systems are compared."""

from pathlib import Path

import numpy as np

from fairseq_ext.base.steps import run_steps
from fairseq_ext.classifiers.predictions import read_set
from fairseq_ext.experiments.classification.measure import compare_accuracies, measure_run
from fairseq_ext.experiments.config import named_run
from fairseq_ext.experiments.metrics.classification import measure
from fairseq_ext.experiments.metrics.records import read_records
from fairseq_ext.experiments.registry import load_experiment
from tests import toy_tasks
from tests.experiments.classification.small_experiment import write_short_classification_experiment
from tests.toy_task_data import COUNTS, write_model, write_task


def test_a_run_is_measured(tmp_path: Path) -> None:
    config = load_experiment(write_short_classification_experiment(tmp_path)).experiment
    data = write_task(config.work_dir / "data-bin/place")
    write_model(config.work_dir / "systems/adapters@place/checkpoint_best.pt", "place", bottleneck_dim=8)
    step = measure_run(config, named_run(config.task_runs, "adapters@place", "runs"))
    run_steps([step])
    records = read_records(step.output / "records.jsonl")
    for split in ("valid", "test"):
        logits = np.load(step.output / f"{split}.npy")
        assert logits.shape == (COUNTS[split], 3)
        _, targets = read_set(data, split, toy_tasks.POSITIONS)
        accuracy = 100 * measure(["accuracy"], logits, targets, toy_tasks.LABELS)["accuracy"]
        for metric in ("accuracy", "main metric"):
            [record] = records.of("adapters", metric, "place", split=split)
            assert (record.run, record.value, record.n) == ("adapters", accuracy, COUNTS[split])
        majority = 100 * np.bincount(targets).max() / COUNTS[split]
        assert records.by_run("", "most frequent label", "place", split=split) == {"": majority}
    assert records.by_run("adapters", "base_trained", "place") == {"adapters": 0}
    assert records.by_run("", "labels", "place") == {"": 3}


def test_differences_are_those_of_mean_accuracies() -> None:
    a, b = np.array([1, 1, 0, 0] * 50), np.array([1, 1, 1, 0] * 50)
    hits = {("full", "x"): [a], ("full", "y"): [a], ("better", "x"): [b], ("better", "y"): [b], ("better", "z"): [b]}
    hits |= {("same", "x"): [a], ("same", "y"): [a], ("mean", "x"): [a, b]}
    pairs = [(name, "full") for name in ("better", "same", "mean", "absent")]
    found = {(each.system, each.domain): each for each in compare_accuracies(hits, pairs, ["x", "y"], seed=1)}
    # What the baseline was not trained for is not compared, and there is no average without all tasks.
    assert list(found) == [
        ("better", ""), ("better", "x"), ("better", "y"), ("same", ""), ("same", "x"), ("same", "y"), ("mean", "x"),
    ]  # fmt: skip
    better = found["better", ""]
    assert (better.difference, better.n, better.over) == (25, 400, "sentences")
    assert (found["same", ""].difference, found["same", ""].p) == (0, 1)
    assert found["mean", "x"].difference == 12.5
