"""The classifier's labels made worse on purpose: some of them wrong, or none for some domains.

Gates that are trained with such labels show how much they need right ones. Only labels of training text change.
"""

from __future__ import annotations

import shutil
from collections.abc import Collection
from pathlib import Path

import numpy as np

from fairseq_ext.classifiers.teacher import count_labels, summarise
from fairseq_ext.corpora.split import HELD_OUT, stable_hash
from fairseq_ext.data.teacher_labels import (
    TeacherLabels,
    label_path,
    open_labels,
    read_teacher_record,
    write_probs,
    write_teacher_record,
)

_TRAIN = "train"


def write_changed_labels(folder: Path, teacher: Path, noise: float, unlabelled: Collection[str], seed: int) -> str:
    """Write a directory like the classifier's.

    Args:
        noise: share of every domain's training sentences whose label is made wrong.
        unlabelled: domains whose training sentences have no label: a row of zeros.
        seed: draws the sentences; those that are wrong at a lower share are wrong at a higher one, in the same way.

    Returns:
        What the labels of the training text have become, in words.
    """
    record = read_teacher_record(teacher)
    domains = record["domains"]
    for name in domains:
        labels = open_labels(label_path(teacher, name, _TRAIN), len(domains))
        rng = np.random.default_rng(stable_hash(seed, "label noise", name))
        changed = np.zeros_like(labels.raw) if name in unlabelled else with_noise(labels, noise, rng)
        write_probs(label_path(folder, name, _TRAIN), changed)
        for split in HELD_OUT:
            shutil.copyfile(label_path(teacher, name, split), label_path(folder, name, split))
    matrix = count_labels(folder, domains, _TRAIN)
    metrics = {**record["metrics"], _TRAIN: summarise(matrix, domains)}
    facts = {"noise": noise, "unlabelled": list(unlabelled)}
    write_teacher_record(folder, domains, record["backend"], metrics, **facts)
    return f"{matrix.sum():,} training sentences are labelled, F1 {metrics[_TRAIN]['micro_f1']:.3f}"


def with_noise(labels: TeacherLabels, share: float, rng: np.random.Generator) -> np.ndarray:
    """Labels of which a share is another domain's.

    In a row that is drawn, the likeliest domain and a random other one change places. So the classifier is as sure as
    before, and only wrong: a row keeps its entropy, and gates could match it as closely as the right one. Where the
    classifier was mistaken itself, the change may make it right.

    Shape:
        result: N×D; rows that are not drawn are bit for bit as they were
    """
    probs, best = np.array(labels.raw), labels.best()
    # All numbers are drawn whatever the share is, so that of two shares the larger has the other's rows.
    order = rng.permutation(len(probs))
    others = (best + rng.integers(1, probs.shape[1], len(probs))) % probs.shape[1]
    rows = order[: round(share * len(probs))]
    probs[rows, best[rows]], probs[rows, others[rows]] = probs[rows, others[rows]], probs[rows, best[rows]]
    return probs
