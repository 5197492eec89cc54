"""The teacher as a step: a domain classifier, its labels for all sets, and how good they are.

A classifier is sure of the sentences it was trained on, also of those nobody could place. Labels of
training text therefore come from models that saw neither the sentence nor a copy of it.
"""

from __future__ import annotations

import argparse
import dataclasses
import shutil
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from fairseq_ext.corpora.text_files import read_lines
from fairseq_ext.data.teacher_labels import label_path, load_probs, write_probs, write_teacher_record
from fairseq_ext.domains.names import DOMAINS_FILE, read_domain_names
from fairseq_ext.engine.steps import Step, add_step_options, run_steps
from fairseq_ext.experiments.translation.config import load_config
from fairseq_ext.experiments.translation.experiment import TranslationExperiment
from fairseq_ext.experiments.translation.pictures import draw_confusion
from fairseq_ext.experiments.translation.prepare import corpus_steps
from fairseq_ext.inputs.errors import InputError
from fairseq_ext.report.writing import write_picture
from fairseq_ext.teacher.classifier import MODEL_FOLDER, Classifier, input_files, make_classifier
from fairseq_ext.teacher.metrics import confusion_matrix, format_report, summarise
from fairseq_ext.teacher.options import Teacher
from fairseq_ext.text.split import HELD_OUT, SPLITS, normalise_source, stable_hash

# A domain can have any name that starts with a letter or digit.
_FOLDS_FOLDER = ".folds"


@dataclass(frozen=True)
class LabelledText:
    """The sentences of one set, all domains in order, and each one's true domain number (N)."""

    texts: list[str]
    labels: np.ndarray


def teacher_steps(config: TranslationExperiment) -> list[Step]:
    """The steps that end with ``teacher``; the sets are made first if they are missing."""
    splits = config.work_dir / "splits"
    teacher = Step(
        config.work_dir / "teacher",
        inputs=[splits, *input_files(config.teacher)],
        options={"lang": config.source_lang, "seed": config.seed, **dataclasses.asdict(config.teacher)},
        build=lambda folder: train_teacher(
            folder, splits, config.source_lang, options=config.teacher, seed=config.seed
        ),
        resumable=True,
    )
    return [*corpus_steps(config), teacher]


def train_teacher(folder: Path, splits: Path, lang: str, *, options: Teacher, seed: int) -> None:
    """Train, label and measure; folds that an interrupted run finished are taken over.

    Args:
        folder: where to write ``DOMAIN/SPLIT.npy``, ``teacher.json``, ``confusion*.svg`` and ``model/``.
        splits: folder made by :func:`~fairseq_ext.text.split.write_splits`.
        lang: language to classify, the source language.
        options: kind of classifier, its options and the number of folds.
        seed: draws the folds.
    """
    domains = read_domain_names(splits / DOMAINS_FILE)
    sets = {split: read_labelled(splits, domains, split, lang) for split in SPLITS}
    probs = {"train": label_out_of_fold(sets["train"], domains, options, seed, cache=folder / _FOLDS_FOLDER)}
    _log(f"training on all {len(sets['train'].texts)} sentences")
    classifier = _fit(sets["train"], len(domains), options, seed)
    classifier.save(folder / MODEL_FOLDER)
    probs.update({split: classifier.predict(sets[split].texts) for split in HELD_OUT})
    for split in SPLITS:
        for number, domain in enumerate(domains):
            write_probs(label_path(folder, domain, split), probs[split][sets[split].labels == number])
    _write_metrics(folder, domains, sets, probs, options.backend)
    shutil.rmtree(folder / _FOLDS_FOLDER)


def read_labelled(splits: Path, domains: Sequence[str], split: str, lang: str) -> LabelledText:
    """Read one set of all domains."""
    texts = [read_lines(splits / domain / f"{split}.{lang}") for domain in domains]
    labels = np.repeat(np.arange(len(domains)), [len(lines) for lines in texts])
    return LabelledText([line for lines in texts for line in lines], labels)


def label_out_of_fold(
    text: LabelledText, domains: Sequence[str], options: Teacher, seed: int, cache: Path
) -> np.ndarray:
    """Label every sentence with a model trained on the other folds.

    Returns:
        Probabilities, N×D, rows in the order of ``text``.
    """
    folds = assign_folds(text.texts, options.folds, seed)
    _check_folds(folds, text.labels, domains, options.folds)
    probs = np.empty((len(text.texts), len(domains)), dtype=np.float32)
    for fold in range(options.folds):
        _log(f"fold {fold + 1} of {options.folds}")
        label = partial(_label_fold, text, folds, fold, len(domains), options, seed)
        probs[folds == fold] = _cached(cache / f"{fold}.npy", label, len(domains))
    return probs


def assign_folds(texts: Sequence[str], num_folds: int, seed: int) -> np.ndarray:
    """Number each sentence's fold (N), by its normalised form, so that copies share a fold."""
    keys = (normalise_source(text) for text in texts)
    return np.array([stable_hash(seed, "fold", key) % num_folds for key in keys])


def main(arguments: Sequence[str] | None = None) -> None:
    """Command line of ``data-prep/train_teacher.py``."""
    parser = argparse.ArgumentParser(
        description="Train an experiment's domain classifier and label its data with it. "
        "Finished steps are not run again.",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    parser.add_argument("config", type=Path, help="experiment file (YAML), see configs/")
    add_step_options(parser)
    options = parser.parse_args(arguments)
    run_steps(teacher_steps(load_config(options.config)), dry_run=options.dry_run, verify=options.verify)


def _label_fold(
    text: LabelledText, folds: np.ndarray, fold: int, num_domains: int, options: Teacher, seed: int
) -> np.ndarray:
    seen = np.flatnonzero(folds != fold)
    others = LabelledText([text.texts[row] for row in seen], text.labels[seen])
    classifier = _fit(others, num_domains, options, seed)
    return classifier.predict([text.texts[row] for row in np.flatnonzero(folds == fold)])


def _fit(text: LabelledText, num_domains: int, options: Teacher, seed: int) -> Classifier:
    classifier = make_classifier(options, seed)
    classifier.fit(text.texts, text.labels, num_domains)
    return classifier


def _check_folds(folds: np.ndarray, labels: np.ndarray, domains: Sequence[str], num_folds: int) -> None:
    for fold in range(num_folds):
        counts = np.bincount(labels[folds != fold], minlength=len(domains))
        if not np.any(folds == fold) or not counts.all():
            missing = domains[int(np.argmin(counts))]
            raise InputError(f"{missing}: too few sentences for {num_folds} folds; lower teacher.folds or add text")


def _cached(path: Path, compute: Callable[[], np.ndarray], num_domains: int) -> np.ndarray:
    if not path.is_file():
        write_probs(path, compute())
    return load_probs(path, num_domains)


def _write_metrics(
    folder: Path,
    domains: Sequence[str],
    sets: dict[str, LabelledText],
    probs: dict[str, np.ndarray],
    backend: str,
) -> None:
    predictions = {split: probs[split].argmax(axis=1) for split in SPLITS}
    matrices = {split: confusion_matrix(sets[split].labels, predictions[split], len(domains)) for split in SPLITS}
    metrics = {split: summarise(matrix, domains) for split, matrix in matrices.items()}
    write_teacher_record(folder, domains, backend, metrics)
    for split in ("train", "test"):
        write_picture(folder, draw_confusion({"domains": domains, "metrics": metrics}, split))
    print(format_report(metrics), file=sys.stderr)


def _log(message: str) -> None:
    print(f"teacher: {message}", file=sys.stderr, flush=True)
