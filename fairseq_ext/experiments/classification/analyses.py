"""The analyses of an experiment with tasks as steps: removed layers, forgetting, differences to full fine-tuning.

Each is a directory ``analysis/NAME`` with ``NAME.json`` in it. The sweep of the initialisation scale and accuracy
against parameters need none: they are figures of the runs themselves.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from fairseq_ext.classifiers.task_data import read_task_facts
from fairseq_ext.classifiers.task_split import LABEL, set_path
from fairseq_ext.corpora.text_files import read_lines
from fairseq_ext.engine.steps import Step
from fairseq_ext.experiments.classification.config import Ablation, ClassificationExperiment
from fairseq_ext.experiments.classification.evaluate import prediction_dir
from fairseq_ext.experiments.classification.prepare import raw_task, task_data
from fairseq_ext.experiments.classification.train import checkpoint_of
from fairseq_ext.metrics.classification import predicted_labels
from fairseq_ext.recipes.config import Run

RESAMPLES = 1000
_VERSION = 1


def analysis_steps(config: ClassificationExperiment) -> list[Step]:
    """The steps of all analyses that the experiment gives reason for.

    ``layers`` wants ``evaluate: ablation``, ``sequence`` a system with ``in_sequence: true`` and several tasks,
    ``differences`` one that is fully fine-tuned and another.
    """
    steps = []
    if config.evaluate.ablation:
        steps.append(layers_step(config, config.evaluate.ablation))
    if config.sequences:
        steps.append(sequence_step(config))
    if fine_tuned_system(config) and len({run.system.name for run in config.task_runs}) > 1:
        steps.append(differences_step(config))
    return steps


def layers_step(config: ClassificationExperiment, ablation: Ablation) -> Step:
    """The step that leaves out the adapters of every span of layers, by task, of each task's first run."""
    evaluation = config.evaluate
    runs: dict[str, Run] = {}
    for run in config.runs[ablation.system]:
        if run.domain in ablation.tasks:
            runs.setdefault(str(run.domain), run)
    checkpoints = {task: checkpoint_of(config, run) for task, run in runs.items()}
    data = {task: task_data(config, task) for task in runs}

    def measure() -> dict[str, Any]:
        # Loads fairseq.
        from fairseq_ext.classifiers.predictions import ExampleSet, load_model
        from fairseq_ext.experiments.classification.layer_spans import ablate_spans

        found = {}
        for task, folder in data.items():
            model = load_model(checkpoints[task], folder / "input0", cpu=evaluation.cpu)
            examples = ExampleSet.load(folder, "valid", model.max_positions())
            metric, labels = config.tasks[task].metrics[0], read_task_facts(folder).labels
            spans = ablate_spans(model, task, examples, metric, labels, evaluation.batch_size)
            found[task] = {"run": runs[task].name, **spans}
        return found

    options = {"version": _VERSION, "runs": {t: [run.name, config.tasks[t].metrics[0]] for t, run in runs.items()}}
    return _step(config, "layers", [*checkpoints.values(), *data.values()], options, measure)


def sequence_step(config: ClassificationExperiment) -> Step:
    """The step that says what became of earlier tasks in each sequence."""
    evaluation = config.evaluate
    checkpoints = {
        name: {str(run.domain): checkpoint_of(config, run) for run in runs} for name, runs in config.sequences.items()
    }
    data = {task: task_data(config, task) for paths in checkpoints.values() for task in paths}

    def measure() -> dict[str, Any]:
        # Loads fairseq.
        from fairseq_ext.experiments.classification.task_sequence import compare_tasks

        options = {"batch_size": evaluation.batch_size, "cpu": evaluation.cpu}
        return {
            name: {"order": list(paths), "tasks": compare_tasks(paths, data, **options)}  # type: ignore[arg-type]
            for name, paths in checkpoints.items()
        }

    inputs = [path for paths in checkpoints.values() for path in paths.values()]
    options = {"version": _VERSION, "order": {name: list(paths) for name, paths in checkpoints.items()}}
    return _step(config, "sequence", [*inputs, *data.values()], options, measure)


def fine_tuned_system(config: ClassificationExperiment) -> str | None:
    """The first system all of whose parameters are trained."""
    return next((name for name, system in config.systems.items() if system.tuning == "full"), None)


def differences_step(config: ClassificationExperiment) -> Step:
    """The step that compares accuracies on the test sets with those of full fine-tuning."""
    baseline = str(fine_tuned_system(config))
    runs = [run for run in config.task_runs if config.tasks[str(run.domain)].kind == "classification"]
    logits = {run.name: prediction_dir(config, run.name) / "test.npy" for run in runs}
    folders = {str(run.domain): raw_task(config, str(run.domain)) for run in runs}

    def measure() -> dict[str, Any]:
        from fairseq_ext.experiments.classification.task_differences import compare_systems

        truth = {task: _true_labels(folder) for task, folder in folders.items()}
        systems: dict[str, dict[str, tuple[np.ndarray, int]]] = {}
        for run in runs:
            task = str(run.domain)
            right = predicted_labels(np.load(logits[run.name], allow_pickle=False)) == truth[task]
            hits = systems.setdefault(run.system.name, {})
            before, count = hits.get(task, (np.zeros(len(right), dtype=np.int64), 0))
            hits[task] = before + right, count + 1
        return {
            "baseline": baseline,
            "resamples": RESAMPLES,
            "systems": compare_systems(systems, baseline, RESAMPLES, config.seed),
        }

    options = {"version": _VERSION, "baseline": baseline, "seed": config.seed, "runs": list(logits)}
    return _step(config, "differences", [*logits.values(), *folders.values()], options, measure)


def _true_labels(folder: Path) -> np.ndarray:
    """The numbers of the labels of a task's test set."""
    labels = read_task_facts(folder).labels
    return np.array([labels.index(label) for label in read_lines(set_path(folder, LABEL, "test"))])


def _step(
    config: ClassificationExperiment,
    name: str,
    inputs: list[Path],
    options: dict[str, Any],
    measure: Callable[[], dict[str, Any]],
) -> Step:
    """A step that writes one record."""

    def build(folder: Path) -> None:
        text = json.dumps(measure(), indent=1, ensure_ascii=False)
        (folder / f"{name}.json").write_text(text + "\n", encoding="utf-8")

    return Step(config.work_dir / "analysis" / name, inputs, options, build)
