"""The steps that measure the runs of an experiment on their tasks: ``predictions/RUN``.

``valid.npy`` and ``test.npy`` are the logits, float32, a row an example in the order of the data. ``metrics.json`` has
by set the ``metrics`` and, where there is something to say of them, ``remarks``; ``majority`` is the accuracy of always
giving the set's most frequent label. ``counts`` and ``labels`` are the task's, ``parameters`` those of
:func:`~fairseq_ext.classifiers.predictions.parameters_of`.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from fairseq_ext.classifiers.task_data import read_task_facts
from fairseq_ext.engine.steps import Step
from fairseq_ext.experiments.classification.config import ClassificationExperiment
from fairseq_ext.experiments.classification.prepare import task_data
from fairseq_ext.experiments.classification.train import checkpoint_of
from fairseq_ext.metrics.classification import majority_share, measure
from fairseq_ext.recipes.config import Run
from fairseq_ext.text.split import HELD_OUT

METRICS_FILE = "metrics.json"
_VERSION = 1


def evaluation_steps(config: ClassificationExperiment) -> list[Step]:
    """One step for each run that has a task."""
    return [prediction_step(config, run) for run in config.task_runs]


def prediction_dir(config: ClassificationExperiment, run: str) -> Path:
    """Where a run's predictions lie."""
    return config.work_dir / "predictions" / run


def prediction_step(config: ClassificationExperiment, run: Run) -> Step:
    """The step that measures a run."""
    evaluation, data = config.evaluate, task_data(config, str(run.domain))
    checkpoint, metrics = checkpoint_of(config, run), config.tasks[str(run.domain)].metrics

    def build(folder: Path) -> None:
        write_predictions(folder, checkpoint, data, metrics, batch_size=evaluation.batch_size, cpu=evaluation.cpu)

    options = {"version": _VERSION, "task": data.name, "metrics": metrics}
    return Step(prediction_dir(config, run.name), [checkpoint, data], options, build)


def write_predictions(
    folder: Path, checkpoint: Path, data: Path, metrics: Sequence[str], *, batch_size: int = 64, cpu: bool = False
) -> None:
    """Write the logits and ``metrics.json`` of a checkpoint for the task whose data these are."""
    # Loads fairseq.
    from fairseq_ext.classifiers.predictions import ExampleSet, load_model, logits_of, parameters_of

    model, facts = load_model(checkpoint, data / "input0", cpu=cpu), read_task_facts(data)
    record: dict[str, Any] = {
        "task": data.name,
        "labels": facts.labels,
        "counts": facts.counts,
        "metrics": {},
        "remarks": {},
        "majority": {},
        "parameters": parameters_of(checkpoint, data),
    }
    for split in HELD_OUT:
        examples = ExampleSet.load(data, split, model.max_positions())
        logits = logits_of(model, data.name, examples.texts, batch_size)
        np.save(folder / f"{split}.npy", logits, allow_pickle=False)
        scores = measure(metrics, logits, examples.targets, facts.labels)
        record["metrics"][split], record["remarks"][split] = dict(scores.values), list(scores.remarks)
        if facts.labels:
            record["majority"][split] = majority_share(examples.targets)
    (folder / METRICS_FILE).write_text(json.dumps(record, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
