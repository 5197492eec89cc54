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

from fairseq_ext.corpora.text_files import read_lines
from fairseq_ext.engine.steps import Step
from fairseq_ext.evaluation.classification_metrics import predicted_labels
from fairseq_ext.evaluation.classification_steps import prediction_dir
from fairseq_ext.experiment.classification import (
    evaluation_of,
    roberta_runs_of,
    roberta_systems_of,
    task_runs_of,
)
from fairseq_ext.experiment.classification_config import ClassificationExperiment
from fairseq_ext.experiment.runs import Run
from fairseq_ext.pipeline.classification_training import roberta_checkpoint
from fairseq_ext.preparation.classification_prepare import raw_task, task_data
from fairseq_ext.preparation.task_data import read_task_facts
from fairseq_ext.preparation.task_split import LABEL, set_path

RESAMPLES = 1000
_VERSION = 1


def analysis_steps(config: ClassificationExperiment) -> list[Step]:
    """The steps of all analyses that the experiment gives reason for.

    ``layers`` wants ``evaluate: ablation``, ``sequence`` a system with ``in_sequence: true`` and several tasks,
    ``differences`` one that is fully fine-tuned and another.
    """
    steps = []
    if evaluation_of(config).ablation:
        steps.append(layers_step(config))
    if sequences_of(config):
        steps.append(sequence_step(config))
    if fine_tuned_system(config) and len({run.system.name for run in task_runs_of(config)}) > 1:
        steps.append(differences_step(config))
    return steps


def layers_step(config: ClassificationExperiment) -> Step:
    """The step that leaves out the adapters of every span of layers, by task, of each task's first run."""
    evaluation = evaluation_of(config)
    assert evaluation.ablation is not None
    runs: dict[str, Run] = {}
    for run in roberta_runs_of(config, evaluation.ablation.system):
        if run.domain in evaluation.ablation.tasks:
            runs.setdefault(str(run.domain), run)
    checkpoints = {task: roberta_checkpoint(config, run) for task, run in runs.items()}
    data = {task: task_data(config, task) for task in runs}

    def measure() -> dict[str, Any]:
        # Loads fairseq.
        from fairseq_ext.analysis.layer_spans import ablate_spans
        from fairseq_ext.evaluation.classification import ExampleSet, load_model

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


def sequences_of(config: ClassificationExperiment) -> dict[str, dict[str, Run]]:
    """The runs of each sequence of tasks, by task in the order of training; a sequence a system and seed."""
    found = {}
    for name, system in roberta_systems_of(config).items():
        runs = roberta_runs_of(config, name) if system.in_sequence and len(system.tasks) > 1 else []
        seeds = dict.fromkeys(run.seed for run in runs)
        for seed in seeds:
            by_task = {str(run.domain): run for run in runs if run.seed == seed}
            found[f"{name}@{seed}" if len(seeds) > 1 else name] = {task: by_task[task] for task in system.tasks}
    return found


def sequence_step(config: ClassificationExperiment) -> Step:
    """The step that says what became of earlier tasks in each sequence."""
    evaluation, sequences = evaluation_of(config), sequences_of(config)
    checkpoints = {
        name: {task: roberta_checkpoint(config, run) for task, run in runs.items()} for name, runs in sequences.items()
    }
    data = {task: task_data(config, task) for runs in sequences.values() for task in runs}

    def measure() -> dict[str, Any]:
        # Loads fairseq.
        from fairseq_ext.analysis.task_sequence import compare_tasks

        options = {"batch_size": evaluation.batch_size, "cpu": evaluation.cpu}
        return {
            name: {"order": list(paths), "tasks": compare_tasks(paths, data, **options)}  # type: ignore[arg-type]
            for name, paths in checkpoints.items()
        }

    inputs = [path for paths in checkpoints.values() for path in paths.values()]
    options = {"version": _VERSION, "order": {name: list(runs) for name, runs in sequences.items()}}
    return _step(config, "sequence", [*inputs, *data.values()], options, measure)


def fine_tuned_system(config: ClassificationExperiment) -> str | None:
    """The first system all of whose parameters are trained."""
    return next((name for name, system in roberta_systems_of(config).items() if system.tuning == "full"), None)


def differences_step(config: ClassificationExperiment) -> Step:
    """The step that compares accuracies on the test sets with those of full fine-tuning."""
    baseline = str(fine_tuned_system(config))
    runs = [run for run in task_runs_of(config) if config.tasks[str(run.domain)].kind == "classification"]
    logits = {run.name: prediction_dir(config, run.name) / "test.npy" for run in runs}
    folders = {str(run.domain): raw_task(config, str(run.domain)) for run in runs}

    def measure() -> dict[str, Any]:
        from fairseq_ext.analysis.task_differences import compare_systems

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
