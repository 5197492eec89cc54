"""Training the domain classifier of an experiment, and measuring its labels.

A classifier is sure of the sentences it was trained on, also of those nobody could place. Labels of training text
therefore come from models that saw neither the sentence nor a copy of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from fairseq_ext.data.teacher_labels import label_path, open_labels, write_teacher_record
from fairseq_ext.domains.names import DOMAINS_FILE, read_domain_names
from fairseq_ext.engine.tasks import Engine
from fairseq_ext.inputs.errors import InputError
from fairseq_ext.teacher.labelling import clear_tasks, train_and_label
from fairseq_ext.teacher.metrics import summarise, summary_line
from fairseq_ext.teacher.options import Teacher
from fairseq_ext.text.split import SPLITS

_THIS_MACHINE = Engine()


def train_teacher(
    folder: Path, splits: Path, lang: str, *, options: Teacher, seed: int, engine: Engine = _THIS_MACHINE
) -> str:
    """Train, label and measure; models and blocks of labels that an interrupted run finished are taken over.

    Args:
        folder: where to write ``DOMAIN/SPLIT.npy``, ``teacher.json`` and ``model/``.
        splits: folder made by :func:`~fairseq_ext.text.split.write_splits`.
        lang: language to classify, the source language.
        options: kind of classifier, its options and the number of folds.
        seed: draws the folds.
        engine: where models are trained and sentences labelled.

    Returns:
        How good it is, in words.

    Raises:
        InputError: if there is only one domain.
    """
    domains = read_domain_names(splits / DOMAINS_FILE)
    if len(domains) < 2:
        raise InputError(f"{splits / DOMAINS_FILE}: has one domain, which needs no teacher; add another under corpora")
    sentences = train_and_label(folder, splits, lang, options, seed, engine)
    matrices = {split: _confusion(folder, domains, split) for split in SPLITS}
    metrics = {split: summarise(matrix, domains) for split, matrix in matrices.items()}
    write_teacher_record(folder, domains, options.backend, metrics, sentences=sentences)
    clear_tasks(folder)
    return f"{summary_line(metrics)}; teacher.json has it by domain"


def _confusion(folder: Path, domains: Sequence[str], split: str) -> np.ndarray:
    """Sentences by true domain (rows) and predicted domain (columns), D×D."""
    best = (open_labels(label_path(folder, domain, split), len(domains)).best() for domain in domains)
    return np.array([np.bincount(each, minlength=len(domains)) for each in best])
