"""The step that compares each system's accuracy with that of full fine-tuning: ``analysis/differences``."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from fairseq_ext.classifiers.task_data import read_task_facts
from fairseq_ext.classifiers.task_split import LABEL, set_path
from fairseq_ext.corpora.text_files import read_lines
from fairseq_ext.engine.steps import Step
from fairseq_ext.experiments.classification.config import ClassificationExperiment
from fairseq_ext.experiments.classification.evaluate import prediction_dir
from fairseq_ext.experiments.classification.prepare import raw_task
from fairseq_ext.metrics.classification import predicted_labels

RESAMPLES = 1000
_VERSION = 1


def analysis_steps(config: ClassificationExperiment) -> list[Step]:
    """The comparison, if one system is fully fine-tuned and there is another."""
    systems = {run.system.name for run in config.task_runs}
    return [differences_step(config)] if fine_tuned_system(config) and len(systems) > 1 else []


def fine_tuned_system(config: ClassificationExperiment) -> str | None:
    """The first system all of whose parameters are trained."""
    return next((name for name, system in config.systems.items() if system.tuning == "full"), None)


def differences_step(config: ClassificationExperiment) -> Step:
    """The step that compares accuracies on the test sets with those of full fine-tuning."""
    baseline = str(fine_tuned_system(config))
    runs = [run for run in config.task_runs if config.tasks[str(run.domain)].kind == "classification"]
    logits = {run.name: prediction_dir(config, run.name) / "test.npy" for run in runs}
    folders = {str(run.domain): raw_task(config, str(run.domain)) for run in runs}

    def build(folder: Path) -> None:
        from fairseq_ext.experiments.classification.task_differences import compare_systems

        truth = {task: _true_labels(folder) for task, folder in folders.items()}
        systems: dict[str, dict[str, tuple[np.ndarray, int]]] = {}
        for run in runs:
            task = str(run.domain)
            right = predicted_labels(np.load(logits[run.name], allow_pickle=False)) == truth[task]
            hits = systems.setdefault(run.system.name, {})
            before, count = hits.get(task, (np.zeros(len(right), dtype=np.int64), 0))
            hits[task] = before + right, count + 1
        found = compare_systems(systems, baseline, RESAMPLES, config.seed)
        record = {"baseline": baseline, "resamples": RESAMPLES, "systems": found}
        text = json.dumps(record, indent=1, ensure_ascii=False)
        (folder / "differences.json").write_text(text + "\n", encoding="utf-8")

    options = {"version": _VERSION, "baseline": baseline, "seed": config.seed, "runs": list(logits)}
    return Step(config.work_dir / "analysis/differences", [*logits.values(), *folders.values()], options, build)


def _true_labels(folder: Path) -> np.ndarray:
    """The numbers of the labels of a task's test set."""
    labels = read_task_facts(folder).labels
    return np.array([labels.index(label) for label in read_lines(set_path(folder, LABEL, "test"))])
