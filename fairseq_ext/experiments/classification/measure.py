"""Measurements of classifiers: metrics and trained parameters of each run, and comparisons of accuracy with baselines.

``predictions/RUN`` contains the records and the logits, ``valid.npy`` and ``test.npy``: float32, one row per example,
in the order of the data. The domain of a record is the task, its dimension ``split`` the set; metrics are in percent.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path

import numpy as np

from fairseq_ext.base.steps import Step
from fairseq_ext.classifiers.task_split import LABEL, TaskFacts, read_task_facts, set_path
from fairseq_ext.experiments.classification.config import Classification
from fairseq_ext.experiments.config import Run
from fairseq_ext.experiments.language_models import checkpoint_of
from fairseq_ext.experiments.metrics.bootstrap import average, resampled_sums
from fairseq_ext.experiments.metrics.classification import majority_share, measure, predicted_labels
from fairseq_ext.experiments.metrics.comparison import COMPARISONS_FILE, Comparison, compare_resamples
from fairseq_ext.experiments.metrics.records import RECORDS_FILE, Record, write_rows
from fairseq_ext.text.split import HELD_OUT
from fairseq_ext.text.text_files import read_lines

ACCURACY, MAIN, MAJORITY, EXAMPLES, LABELS = "accuracy", "main metric", "most frequent label", "examples", "labels"
TRAINED, BASE, BASE_TRAINED = "trained", "base", "base_trained"  # parameter counts
RESAMPLES = 1000
_VERSION, _COMPARISON_VERSION = 3, 2

# By system and task, one Boolean array per run: whether each of the N examples is classified correctly.
Hits = Mapping[tuple[str, str], Sequence[np.ndarray]]


def measure_run(config: Classification, run: Run) -> Step:
    """Return the step that writes the logits of a run and its metrics.

    For classification, it also measures the accuracy of the most frequent label.
    """
    checkpoint, data = checkpoint_of(config, run), config.task_data(str(run.domain))
    metrics, evaluate = config.tasks[str(run.domain)].metrics, config.evaluate

    def build(folder: Path) -> None:
        # Loads fairseq.
        from fairseq_ext.classifiers.predictions import load_model, logits_of, parameters_of, read_set, separator_of

        facts, model = read_task_facts(data), load_model(checkpoint, data / "input0", cpu=evaluate.cpu)
        sets = {}
        for split in HELD_OUT:
            texts, targets = read_set(data, split, model.max_positions(), separator_of(model, data.name))
            logits = logits_of(model, data.name, texts, evaluate.batch_size)
            np.save(folder / f"{split}.npy", logits, allow_pickle=False)
            sets[split] = measure(metrics, logits, targets, facts.labels)
            if facts.labels:
                sets[split][MAJORITY] = majority_share(targets)
        write_rows(folder / RECORDS_FILE, records_of(run, facts, sets, parameters_of(checkpoint, data)))

    options = {"version": _VERSION, "task": data.name, "metrics": list(metrics)}
    return Step(_predictions(config, run), [checkpoint, data], options, build)


def records_of(
    run: Run, facts: TaskFacts, sets: Mapping[str, Mapping[str, float]], parameters: Mapping[str, int]
) -> Iterator[Record]:
    """Return the records of a run and those of its task's data. The latter have no system."""
    of_task = partial(Record, domain=str(run.domain))
    name = run.name.replace(f"@{run.domain}", "", 1)
    of_run = partial(of_task, system=run.system.name, run=name, seed=run.seed)
    for split, scores in sets.items():
        main = next(iter(scores))
        for metric, share in {MAIN: scores[main], **scores}.items():
            of = of_task if metric == MAJORITY else of_run
            yield of(metric=metric, value=100 * share, n=facts.counts[split], dims={"split": split})
    for metric, number in parameters.items():
        yield of_run(metric=metric, value=number)
    for split, count in facts.counts.items():
        yield of_task(metric=EXAMPLES, value=count, dims={"split": split})
    if facts.labels:
        yield of_task(metric=LABELS, value=len(facts.labels))


# Comparison


def comparisons_file(config: Classification) -> Path:
    """Return the file of comparisons with baselines."""
    return config.work_dir / "analysis" / "differences" / COMPARISONS_FILE


def fine_tuned(config: Classification) -> str | None:
    """Return the name of the first fully fine-tuned system; None if there is none."""
    return next((name for name, system in config.systems.items() if system.tuning == "full"), None)


def comparison_steps(config: Classification) -> list[Step]:
    """Return the step that compares test accuracies with those of baselines. The list is empty without baselines.

    By default, every other system is compared with full fine-tuning.
    """
    full = fine_tuned(config)
    compared = config.compare or {name: (full,) for name in config.task_systems if full and name != full}
    pairs = [(system, baseline) for system, baselines in compared.items() for baseline in baselines]
    if not pairs:
        return []
    runs = [run for run in config.task_runs if config.tasks[str(run.domain)].kind == "classification"]
    logits = [_predictions(config, run) / "test.npy" for run in runs]
    tasks = dict.fromkeys(config.raw_task(str(run.domain)) for run in runs)

    def build(folder: Path) -> None:
        hits = defaultdict(list)
        for run, path in zip(runs, logits, strict=True):
            task = config.raw_task(str(run.domain))
            labels = read_task_facts(task).labels
            numbers = [labels.index(label) for label in read_lines(set_path(task, LABEL, "test"))]
            hits[run.system.name, task.name].append(predicted_labels(np.load(path, allow_pickle=False)) == numbers)
        comparisons = compare_accuracies(hits, pairs, list(config.tasks), config.seed)
        write_rows(folder / COMPARISONS_FILE, comparisons)

    options = {"version": _COMPARISON_VERSION, "pairs": pairs, "seed": config.seed, "runs": [run.name for run in runs]}
    return [Step(comparisons_file(config).parent, [*logits, *tasks], options, build)]


def compare_accuracies(
    hits: Hits, pairs: Sequence[tuple[str, str]], tasks: Sequence[str], seed: int
) -> list[Comparison]:
    """Compare mean accuracies over runs, for each task and averaged over tasks if both systems have all tasks.

    Resamples are drawn with the seed within each test set and are the same for all systems.
    """
    # In percent, on the test set and on each of R resamples: 1+R.
    accuracies = {}
    for (system, task), runs in hits.items():
        counts = np.stack(runs).sum(axis=0)
        sums = resampled_sums(counts[:, None], RESAMPLES, [seed, *task.encode()])[:, 0]
        accuracies[system, task] = 100 * sums / (len(counts) * len(runs))
    comparisons = []
    for system, baseline in pairs:
        compare = partial(compare_resamples, system, baseline, ACCURACY)
        shared = [task for task in tasks if (system, task) in hits and (baseline, task) in hits]
        differences = [accuracies[system, task] - accuracies[baseline, task] for task in shared]
        sizes = [len(hits[system, task][0]) for task in shared]
        if len(shared) == len(tasks) > 1:
            comparisons.append(compare("", average(differences), sum(sizes)))
        comparisons += map(compare, shared, differences, sizes)
    return comparisons


def _predictions(config: Classification, run: Run) -> Path:
    return config.work_dir / "predictions" / run.name
