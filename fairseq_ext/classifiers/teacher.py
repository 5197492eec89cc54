"""Training the domain classifier of an experiment, and measuring its labels.

A classifier is sure of the sentences it was trained on, also of those nobody could place. Labels of training text
therefore come from models that saw neither the sentence nor a copy of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from fairseq_ext.classifiers.labelling import clear_tasks, train_and_label
from fairseq_ext.classifiers.options import Teacher
from fairseq_ext.corpora.split import SPLITS
from fairseq_ext.data.teacher_labels import label_path, open_labels, write_teacher_record
from fairseq_ext.engine.tasks import THIS_MACHINE, Engine
from fairseq_ext.inputs.domain_names import DOMAINS_FILE, read_domain_names
from fairseq_ext.inputs.errors import InputError


def train_teacher(
    folder: Path, splits: Path, lang: str, *, options: Teacher, seed: int, engine: Engine = THIS_MACHINE
) -> str:
    """Write ``DOMAIN/SPLIT.npy``, ``teacher.json`` and ``model/``, and say how good it is.

    Models and blocks of labels that an interrupted run finished are taken over.

    Args:
        splits: folder made by :func:`~fairseq_ext.corpora.split.write_splits`.
        lang: language to classify, the source language.
    """
    domains = read_domain_names(splits / DOMAINS_FILE)
    if len(domains) < 2:
        raise InputError(f"{splits / DOMAINS_FILE}: has one domain, which needs no teacher; add another under corpora")
    sentences = train_and_label(folder, splits, lang, options, seed, engine)
    metrics = {split: summarise(count_labels(folder, domains, split), domains) for split in SPLITS}
    write_teacher_record(folder, domains, options.backend, metrics, sentences=sentences)
    clear_tasks(folder)
    scores = ", ".join(f"{each['micro_f1']:.3f} on {split}" for split, each in metrics.items())
    return f"F1 {scores}; teacher.json has it by domain"


def count_labels(folder: Path, domains: Sequence[str], split: str) -> np.ndarray:
    """Sentences that have a label, by true domain (rows) and likeliest domain (columns): D×D."""
    files = [open_labels(label_path(folder, name, split), len(domains)) for name in domains]
    best = (replace(labels, may_lack=True).best()[labels.raw.any(1)] for labels in files)
    return np.array([np.bincount(rows, minlength=len(domains)) for rows in best])


def summarise(matrix: np.ndarray, domains: Sequence[str]) -> dict[str, Any]:
    """Turn a confusion matrix into what ``teacher.json`` records.

    ``micro_f1`` is the papers' measure; with one label a sentence it is the accuracy.
    """
    hits = np.diag(matrix).astype(float)
    precision, recall = _ratio(hits, matrix.sum(axis=0)), _ratio(hits, matrix.sum(axis=1))
    columns = {"precision": precision, "recall": recall, "f1": _ratio(2 * precision * recall, precision + recall)}
    per_domain = {
        name: {
            "sentences": int(matrix[row].sum()),
            **{measure: round(float(values[row]), 4) for measure, values in columns.items()},
        }
        for row, name in enumerate(domains)
    }
    accuracy = round(float(hits.sum() / max(matrix.sum(), 1)), 4)
    return {"micro_f1": accuracy, "per_domain": per_domain, "confusion": matrix.tolist()}


def _ratio(numerator: np.ndarray, denominator: np.ndarray) -> np.ndarray:
    """Divide, with 0 / 0 = 0."""
    zeros = np.zeros_like(numerator, dtype=float)
    return np.divide(numerator, denominator, out=zeros, where=denominator != 0)
