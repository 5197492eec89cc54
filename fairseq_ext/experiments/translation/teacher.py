"""The teacher as a step: a domain classifier, its labels for all sets, and how good they are.

A classifier is sure of the sentences it was trained on, also of those nobody could place. Labels of
training text therefore come from models that saw neither the sentence nor a copy of it.
"""

from __future__ import annotations

import argparse
import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from fairseq_ext.data.teacher_labels import label_path, open_labels, write_teacher_record
from fairseq_ext.domains.names import DOMAINS_FILE, read_domain_names
from fairseq_ext.engine.steps import Step, add_step_options, run_steps
from fairseq_ext.engine.tasks import Engine, add_engine_options, engine_from
from fairseq_ext.experiments.translation.config import load_config
from fairseq_ext.experiments.translation.experiment import TranslationExperiment
from fairseq_ext.experiments.translation.pictures import draw_confusion
from fairseq_ext.experiments.translation.prepare import corpus_steps, subword_steps, subwords_dir
from fairseq_ext.inputs.errors import InputError
from fairseq_ext.report.writing import write_picture
from fairseq_ext.teacher.classifier import input_files
from fairseq_ext.teacher.labelling import clear_tasks, train_and_label
from fairseq_ext.teacher.metrics import summarise, summary_line
from fairseq_ext.teacher.options import Teacher, TfidfTeacher
from fairseq_ext.text.split import SPLITS
from fairseq_ext.text.subwords import MODEL_FILE

_THIS_MACHINE = Engine()
# What earlier versions had not counts where it is given: teachers that they trained stay.
_LATER_OPTIONS = ("max_sentences", "precision", "subword_ngrams", "subword_model")


def teacher_steps(config: TranslationExperiment, engine: Engine = _THIS_MACHINE) -> list[Step]:
    """The steps that end with ``teacher``; the sets are made first if they are missing."""
    splits, options = config.work_dir / "splits", _with_subwords(config)
    teacher = Step(
        config.work_dir / "teacher",
        inputs=[splits, *input_files(options)],
        options={"lang": config.source_lang, "seed": config.seed, **_options_that_count(config.teacher)},
        build=lambda folder: train_teacher(
            folder, splits, config.source_lang, options=options, seed=config.seed, engine=engine
        ),
        resumable=True,
    )
    needed = [] if options == config.teacher else [s for s in subword_steps(config) if s.output == subwords_dir(config)]
    return [*corpus_steps(config, engine), *needed, teacher]


def train_teacher(
    folder: Path, splits: Path, lang: str, *, options: Teacher, seed: int, engine: Engine = _THIS_MACHINE
) -> str:
    """Train, label and measure; models and blocks of labels that an interrupted run finished are taken over.

    Args:
        folder: where to write ``DOMAIN/SPLIT.npy``, ``teacher.json``, ``confusion*.svg`` and ``model/``.
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
    for split in ("train", "test"):
        write_picture(folder, draw_confusion({"domains": domains, "metrics": metrics}, split))
    clear_tasks(folder)
    return f"{summary_line(metrics)}; teacher.json has it by domain"


def main(arguments: Sequence[str] | None = None) -> None:
    """Command line of ``data-prep/train_teacher.py``."""
    parser = argparse.ArgumentParser(
        description="Train an experiment's domain classifier and label its data with it. "
        "Finished steps are not run again.",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    parser.add_argument("config", type=Path, help="experiment file (YAML), see configs/")
    add_step_options(parser)
    add_engine_options(parser)
    options = parser.parse_args(arguments)
    steps = teacher_steps(load_config(options.config), engine_from(options))
    run_steps(steps, dry_run=options.dry_run)


def _with_subwords(config: TranslationExperiment) -> Teacher:
    """The classifier's options; subwords that it counts are the experiment's where the file names no others."""
    options = config.teacher
    if isinstance(options, TfidfTeacher) and options.subword_ngrams and options.subword_model is None:
        return dataclasses.replace(options, subword_model=str((subwords_dir(config) / MODEL_FILE).resolve()))
    return options


def _options_that_count(options: Teacher) -> Mapping[str, Any]:
    defaults = {field.name: field.default for field in dataclasses.fields(options)}
    given = dataclasses.asdict(options)
    return {key: given[key] for key in given if key not in _LATER_OPTIONS or given[key] != defaults[key]}


def _confusion(folder: Path, domains: Sequence[str], split: str) -> np.ndarray:
    """Sentences by true domain (rows) and predicted domain (columns), D×D."""
    best = (open_labels(label_path(folder, domain, split), len(domains)).best() for domain in domains)
    return np.array([np.bincount(each, minlength=len(domains)) for each in best])
