"""What is measured: metrics and trained parameters of every run, and accuracies against those of baselines.

``predictions/RUN`` has ``valid.npy`` and ``test.npy``, the logits, float32, a row per example in the order of the data,
and the records. Their domain is the task; metrics are in percent.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path

import numpy as np

from fairseq_ext.classifiers.task_data import TaskFacts, read_task_facts
from fairseq_ext.classifiers.task_split import LABEL, set_path
from fairseq_ext.corpora.split import HELD_OUT
from fairseq_ext.corpora.text_files import read_lines
from fairseq_ext.engine.steps import Step
from fairseq_ext.metrics.bootstrap import average, resampled_sums
from fairseq_ext.metrics.classification import majority_share, measure, predicted_labels
from fairseq_ext.metrics.comparison import COMPARISONS_FILE, Comparison, compare_resamples, write_comparisons
from fairseq_ext.metrics.records import RECORDS_FILE, Record, Records, write_records
from fairseq_ext.recipes.classification.config import Classification
from fairseq_ext.recipes.config import Run
from fairseq_ext.recipes.language_models import checkpoint_of
from fairseq_ext.recipes.report import measured, trial_records

ACCURACY, MAIN, MAJORITY, EXAMPLES, LABELS = "accuracy", "main metric", "most frequent label", "examples", "labels"
TRAINED, BASE, BASE_TRAINED = "trained", "base", "base_trained"  # numbers of parameters
RESAMPLES = 1000
_VERSION = _COMPARISON_VERSION = 2

# By system and task, for each run, which of the N examples it has right.
Hits = Mapping[tuple[str, str], Sequence[np.ndarray]]


def on(metric: str, split: str) -> str:
    """The name of a metric on a set."""
    return f"{metric}, {split}"


def all_records(config: Classification) -> Records:
    """Everything that was measured so far. The numbers of a task, which each of its runs has, are there once."""
    found = [*measured(evaluation_steps(config)), *trial_records(config)]
    return Records(list(dict.fromkeys(found)))


def evaluation_steps(config: Classification) -> list[Step]:
    """The steps that measure the runs that are trained for tasks: ``predictions/RUN``."""
    return [evaluation_step(config, run) for run in config.task_runs]


def evaluation_step(config: Classification, run: Run) -> Step:
    """The step that writes the logits of a run and measures them; of classes also the most frequent label."""
    checkpoint, data = checkpoint_of(config, run), config.task_data(str(run.domain))
    metrics, evaluate = config.tasks[str(run.domain)].metrics, config.evaluate

    def build(folder: Path) -> None:
        # Loads fairseq.
        from fairseq_ext.classifiers.predictions import ExampleSet, load_model, logits_of, parameters_of, separator_of

        facts, model = read_task_facts(data), load_model(checkpoint, data / "input0", cpu=evaluate.cpu)
        sets = {}
        for split in HELD_OUT:
            examples = ExampleSet.load(data, split, model.max_positions(), separator_of(model, data.name))
            logits = logits_of(model, data.name, examples.texts, evaluate.batch_size)
            np.save(folder / f"{split}.npy", logits, allow_pickle=False)
            sets[split] = measure(metrics, logits, examples.targets, facts.labels)
            if facts.labels:
                sets[split][MAJORITY] = majority_share(examples.targets)
        write_records(folder / RECORDS_FILE, records_of(run, facts, sets, parameters_of(checkpoint, data)))

    options = {"version": _VERSION, "task": data.name, "metrics": list(metrics)}
    return Step(_predictions(config, run), [checkpoint, data], options, build)


def records_of(
    run: Run, facts: TaskFacts, sets: Mapping[str, Mapping[str, float]], parameters: Mapping[str, int]
) -> Iterator[Record]:
    """The records of a run, and those of the data of its task, which have no system."""
    of_task = partial(Record, domain=str(run.domain))
    name = run.name.replace(f"@{run.domain}", "", 1)
    of_run = partial(of_task, system=run.system.name, run=name, seed=run.seed)
    for split, scores in sets.items():
        main = next(iter(scores))
        for metric, share in {MAIN: scores[main], **scores}.items():
            of = of_task if metric == MAJORITY else of_run
            yield of(metric=on(metric, split), value=100 * share, n=facts.counts[split])
    for metric, number in parameters.items():
        yield of_run(metric=metric, value=number)
    for split, count in facts.counts.items():
        yield of_task(metric=on(EXAMPLES, split), value=count)
    if facts.labels:
        yield of_task(metric=LABELS, value=len(facts.labels))


# Comparison


def comparisons_file(config: Classification) -> Path:
    """Where systems are compared with baselines."""
    return config.work_dir / "analysis" / "differences" / COMPARISONS_FILE


def fine_tuned(config: Classification) -> str | None:
    """The first system all of whose parameters are trained."""
    return next((name for name, system in config.systems.items() if system.tuning == "full"), None)


def comparison_steps(config: Classification) -> list[Step]:
    """The step that compares accuracies on the test sets with those of baselines; none without any.

    By default, the baseline of every other system is full fine-tuning.
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
        found = compare_accuracies(hits, pairs, list(config.tasks), config.seed)
        write_comparisons(folder / COMPARISONS_FILE, found)

    options = {"version": _COMPARISON_VERSION, "pairs": pairs, "seed": config.seed, "runs": [run.name for run in runs]}
    return [Step(comparisons_file(config).parent, [*logits, *tasks], options, build)]


def compare_accuracies(
    hits: Hits, pairs: Sequence[tuple[str, str]], tasks: Sequence[str], seed: int
) -> list[Comparison]:
    """Compare mean accuracies over runs, by task and, where both systems have all tasks, averaged over them.

    Resamples are drawn by the seed within each test set and are the same for all systems.
    """
    # In percent, on the test set and on each of R resamples: 1+R.
    accuracies = {}
    for (system, task), runs in hits.items():
        counts = np.stack(runs).sum(axis=0)
        sums = resampled_sums(counts[:, None], RESAMPLES, [seed, *task.encode()])[:, 0]
        accuracies[system, task] = 100 * sums / (len(counts) * len(runs))
    found = []
    for system, baseline in pairs:
        compare = partial(compare_resamples, system, baseline, ACCURACY)
        shared = [task for task in tasks if (system, task) in hits and (baseline, task) in hits]
        differences = [accuracies[system, task] - accuracies[baseline, task] for task in shared]
        sizes = [len(hits[system, task][0]) for task in shared]
        if len(shared) == len(tasks) > 1:
            found.append(compare("", average(differences), sum(sizes)))
        found += map(compare, shared, differences, sizes)
    return found


def _predictions(config: Classification, run: Run) -> Path:
    return config.work_dir / "predictions" / run.name
