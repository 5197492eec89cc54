"""Train the domain classifier of an experiment, evaluate its labels, and corrupt them for ablations.

A classifier is confident on its training sentences, including ambiguous ones. Labels of training text therefore come
from models that were not trained on the sentence or a copy of it. Training gates with wrong labels, or without labels
for some domains, shows how much they depend on correct labels.
"""

from __future__ import annotations

import shutil
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from fairseq_ext.base.domain_names import DOMAINS_FILE, read_domain_names
from fairseq_ext.base.errors import InputError
from fairseq_ext.base.jobs import JOBS_DIR, THIS_MACHINE, Engine, remove_jobs
from fairseq_ext.classifiers.classifier import Teacher
from fairseq_ext.classifiers.labelling import train_and_label
from fairseq_ext.data.teacher_labels import (
    TeacherLabels,
    classes_of,
    label_path,
    open_labels,
    read_teacher_record,
    write_probs,
    write_teacher_record,
)
from fairseq_ext.text.split import HELD_OUT, SPLITS, stable_hash


def train_teacher(
    folder: Path, splits: Path, lang: str, *, options: Teacher, seed: int, engine: Engine = THIS_MACHINE
) -> str:
    """Write ``DOMAIN/SPLIT.npy``, ``teacher.json`` and ``model/``, and return a summary with F1 scores.

    Models and blocks of labels finished in an interrupted run are reused.

    Args:
        splits: folder written by :func:`~fairseq_ext.text.split.write_splits`.
        lang: language to classify, i.e. the source language.
    """
    domains = read_domain_names(splits / DOMAINS_FILE)
    if len(domains) < 2:
        raise InputError(f"{splits / DOMAINS_FILE}: has one domain, but a teacher needs two; add one under corpora")
    sentences = train_and_label(folder, splits, lang, options, seed, engine)
    facts = {"domains": domains, "has_base": bool(options.base_text)}
    metrics = {split: summarise(count_labels(folder, facts, split), classes_of(facts)) for split in SPLITS}
    kept = {"has_base": True} if options.base_text else {}
    write_teacher_record(folder, domains, options.backend, metrics, sentences=sentences, **kept)
    remove_jobs(folder / JOBS_DIR)  # the next run would start from scratch
    scores = ", ".join(f"{each['micro_f1']:.3f} on {split}" for split, each in metrics.items())
    return f"F1 {scores}; see teacher.json for F1 by domain"


def count_labels(folder: Path, record: Mapping[str, Any], split: str) -> np.ndarray:
    """Count labelled sentences by true class (rows) and likeliest class (columns): C×C, or D×C if all have a domain."""
    classes = classes_of(record)
    paths = [path for name in classes if (path := label_path(folder, name, split)).is_file()]
    files = [open_labels(path, len(classes)) for path in paths]
    best = (replace(labels, may_lack=True).best()[labels.raw.any(1)] for labels in files)
    return np.array([np.bincount(rows, minlength=len(classes)) for rows in best])


def summarise(matrix: np.ndarray, classes: Sequence[str]) -> dict[str, Any]:
    """Return the metrics of a confusion matrix, whose rows are the first classes, for ``teacher.json``.

    ``micro_f1`` is the papers' metric; with one label per sentence it equals accuracy.
    """
    hits = np.diag(matrix).astype(float)
    precision, recall = _ratio(hits, matrix.sum(axis=0)[: len(hits)]), _ratio(hits, matrix.sum(axis=1))
    columns = {"precision": precision, "recall": recall, "f1": _ratio(2 * precision * recall, precision + recall)}
    per_domain = {
        name: {
            "sentences": int(matrix[row].sum()),
            **{measure: round(float(values[row]), 4) for measure, values in columns.items()},
        }
        for row, name in enumerate(classes[: len(matrix)])
    }
    accuracy = round(float(hits.sum() / max(matrix.sum(), 1)), 4)
    return {"micro_f1": accuracy, "per_domain": per_domain, "confusion": matrix.tolist()}


def _ratio(numerator: np.ndarray, denominator: np.ndarray) -> np.ndarray:
    """Divide, with 0 / 0 = 0."""
    zeros = np.zeros_like(numerator, dtype=float)
    return np.divide(numerator, denominator, out=zeros, where=denominator != 0)


def write_changed_labels(folder: Path, teacher: Path, noise: float, unlabelled: Collection[str], seed: int) -> str:
    """Write a copy of the classifier's labels with changes to those of the training sets.

    Args:
        noise: share of each domain's training sentences whose labels are corrupted.
        unlabelled: domains whose training sentences get no label, i.e. a row of zeros.
        seed: seed for sampling sentences; labels corrupted at a lower share are also corrupted, in the same way, at a
            higher one.

    Returns:
        A summary of the changed labels.
    """
    record = read_teacher_record(teacher)
    domains = record["domains"]
    for name in domains:
        labels = open_labels(label_path(teacher, name, "train"), len(classes_of(record)))
        rng = np.random.default_rng(stable_hash(seed, "label noise", name))
        changed = np.zeros_like(labels.raw) if name in unlabelled else with_noise(labels, noise, rng)
        write_probs(label_path(folder, name, "train"), changed)
        for split in HELD_OUT:
            shutil.copyfile(label_path(teacher, name, split), label_path(folder, name, split))
    matrix = count_labels(folder, record, "train")
    metrics = {**record["metrics"], "train": summarise(matrix, classes_of(record))}
    facts = {"noise": noise, "unlabelled": list(unlabelled), **({"has_base": True} if record["has_base"] else {})}
    write_teacher_record(folder, domains, record["backend"], metrics, **facts)
    return f"{matrix.sum():,} training sentences are labelled, F1 {metrics['train']['micro_f1']:.3f}"


def with_noise(labels: TeacherLabels, share: float, rng: np.random.Generator) -> np.ndarray:
    """Return labels of which a share is corrupted.

    In each sampled row, the probabilities of the likeliest domain and a random other one are swapped. This keeps the
    row's entropy, so that the labels are wrong but as confident as before, and gates could match them as closely. If
    the classifier was wrong, the swap may correct it.

    Shape:
        result: N×D; rows that are not sampled are unchanged
    """
    probs, best = np.array(labels.raw), labels.best()
    # Random numbers do not depend on the share, so that a larger share includes the rows of a smaller one.
    order = rng.permutation(len(probs))
    others = (best + rng.integers(1, probs.shape[1], len(probs))) % probs.shape[1]
    rows = order[: round(share * len(probs))]
    probs[rows, best[rows]], probs[rows, others[rows]] = probs[rows, others[rows]], probs[rows, best[rows]]
    return probs
