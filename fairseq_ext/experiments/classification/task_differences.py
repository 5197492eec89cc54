"""Whether a system's accuracy differs from another's by more than chance: paired bootstrap over the test sets."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from fairseq_ext.metrics.bootstrap import average, p_value, resampled_sums

# By task, how many of the system's runs have each of its N examples right; and how many runs there are.
Hits = Mapping[str, tuple[np.ndarray, int]]


def compare_systems(systems: Mapping[str, Hits], baseline: str, resamples: int, seed: int) -> dict[str, dict[str, Any]]:
    """Accuracy against a baseline's, by task and averaged over the tasks that both have.

    Examples are drawn within each test set, and the same for all systems. What is compared are means over runs: the
    test is about other examples, labelled by these very runs.

    Args:
        systems: what each has right.
        baseline: one of them.
        resamples: R, how often to draw.
        seed: of the draws.

    Returns:
        By system but for the baseline: ``average`` and, under ``tasks``, each task, with ``difference`` in percentage
        points and ``p``, two-sided.
    """
    sums = _accuracies(systems, resamples, seed)
    found = {}
    other = sums.get(baseline, {})
    for name, own in sums.items():
        differences = {task: own[task] - other[task] for task in own if task in other}
        if name != baseline and differences:
            tasks = {task: _figures(values) for task, values in differences.items()}
            found[name] = {"average": _figures(average(list(differences.values()))), "tasks": tasks}
    return found


def _accuracies(systems: Mapping[str, Hits], resamples: int, seed: int) -> dict[str, dict[str, np.ndarray]]:
    """By system and task 1+R accuracies in percent, the first of the test set as it is."""
    accuracies: dict[str, dict[str, np.ndarray]] = {name: {} for name in systems}
    for task in dict.fromkeys(task for hits in systems.values() for task in hits):
        having = [name for name in systems if task in systems[name]]
        counts = np.stack([systems[name][task][0] for name in having], axis=1)  # N×S
        # By name, so that a task more or less changes nothing for the others.
        sums = resampled_sums(counts, resamples, [seed, *task.encode()])
        for name, column in zip(having, sums.T, strict=True):
            accuracies[name][task] = 100 * column / (len(counts) * systems[name][task][1])
    return accuracies


def _figures(differences: np.ndarray) -> dict[str, float | None]:
    return {"difference": round(float(differences[0]), 4), "p": p_value(differences[1:])}
