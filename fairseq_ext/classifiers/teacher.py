"""Train the domain classifier of an experiment, label sentences, evaluate the labels, and corrupt them for ablations.

A classifier is confident on its training sentences, including ambiguous ones. Labels of training text therefore come
from models that were not trained on the sentence or a copy of it. Training gates with wrong labels, or without labels
for some domains, shows how much they depend on correct labels.

Jobs are one per classifier, and one per block of sentences::

    .jobs/folds.npy                 the fold of each training sentence
    .jobs/models/000000/model/      trained without fold 0; the last model is trained on all text
    .jobs/labels/000000/labels.npy  labels of a block, K×D

With a class for text of no domain (``base/train.LANG`` beside ``.jobs``), labels have one more column, the last.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, compress, islice
from pathlib import Path
from typing import Any

import numpy as np

from fairseq_ext.base.array_file import map_array
from fairseq_ext.base.domain_names import BASE_ROUTE, DOMAINS_FILE, read_domain_names
from fairseq_ext.base.errors import InputError
from fairseq_ext.base.jobs import JOBS_DIR, THIS_MACHINE, Engine, job_output, remove_jobs, run_jobs
from fairseq_ext.base.steps import atomic_write
from fairseq_ext.classifiers.classifier import MODEL_FOLDER, Teacher, load_classifier, train_classifier
from fairseq_ext.data.teacher_labels import (
    DTYPE,
    TeacherLabels,
    as_labels,
    classes_of,
    label_path,
    open_labels,
    read_teacher_record,
    write_probs,
    write_teacher_record,
)
from fairseq_ext.text.split import HELD_OUT, SPLITS, normalise_source, stable_hash
from fairseq_ext.text.text_files import collapse, count_lines, stream_lines

_FOLDS, _MODELS, _LABELS, _BLOCK_FILE = "folds.npy", "models", "labels", "labels.npy"
_BLOCK_SENTENCES = 200_000  # per job; a job loads the models and reads its first file up to the block
_CHUNK_SENTENCES = 20_000  # per prediction


@dataclass(frozen=True)
class TextFiles:
    """The sentences of a set: the files of all domains, concatenated; row numbers run through all of them."""

    files: tuple[Path, ...]
    counts: tuple[int, ...]

    @property
    def bounds(self) -> np.ndarray:
        """The first row of each file, and the total number of rows."""
        return np.cumsum([0, *self.counts])

    def read(self, rows: np.ndarray) -> list[str]:
        """Return the sentences of some rows, given in ascending order."""
        first = int(np.searchsorted(self.bounds, rows[0], side="right")) - 1  # earlier files are not read
        rows = rows - self.bounds[first]
        is_wanted = np.zeros(rows[-1] + 1, dtype=bool)
        is_wanted[rows] = True
        lines = chain.from_iterable(map(stream_lines, self.files[first:]))
        return [collapse(line) for line in compress(lines, is_wanted)]


@dataclass(frozen=True)
class Labelling:
    """Texts and options for training and labelling, from which jobs are created.

    Attributes:
        folder: absolute path of the folder for models and labels.
        sets: the text of train, valid and test, one file for each domain; that of train may have one more, ``base``.
    """

    folder: Path
    sets: Mapping[str, TextFiles]
    options: Teacher
    seed: int

    @property
    def num_classes(self) -> int:
        """Number of columns of the labels."""
        return len(self.sets["train"].files)

    def model(self, number: int) -> Path:
        """Return the path of a trained model: one per fold, trained without it, and a last one trained on all text."""
        return job_output(self.folder / _MODELS, number) / MODEL_FOLDER

    def folds(self, split: str) -> np.ndarray:
        """Return the number of the model that labels each sentence of a set."""
        if split == "train":
            return map_array(self.folder / _FOLDS, "run the same command again")
        return np.full(self.sets[split].bounds[-1], self.options.folds)

    def training_rows(self, number: int) -> np.ndarray:
        """Return the rows that a model is trained on: those of other folds, or a sample with each domain's share."""
        rows = np.flatnonzero(self.folds("train") != number)
        if len(rows) <= self.options.max_sentences:
            return rows
        rng, share = np.random.default_rng([self.seed, number]), self.options.max_sentences / len(rows)
        by_domain = np.split(rows, np.searchsorted(rows, self.sets["train"].bounds[1:-1]))
        sizes = [min(len(each), max(1, int(len(each) * share))) for each in by_domain]
        drawn = (rng.choice(*each, replace=False, shuffle=False) for each in zip(by_domain, sizes, strict=True))
        return np.sort(np.concatenate([*drawn]))

    def fit(self, number: int, output: Path) -> None:
        """Run the job that trains a model."""
        rows, text = self.training_rows(number), self.sets["train"]
        domains = np.searchsorted(text.bounds, rows, side="right") - 1
        train_classifier(output / MODEL_FOLDER, self.options, text.read(rows), domains, self.seed)

    def blocks(self) -> list[tuple[str, int, int]]:
        """Return all blocks to label: set, start row and end row (exclusive)."""
        ends = {split: int(text.bounds[-1]) for split, text in self.sets.items()}
        return [(split, *block) for split, end in ends.items() for block in cut(end, _BLOCK_SENTENCES)]

    def label(self, number: int, output: Path) -> None:
        """Run the job that labels a block."""
        split, start, stop = self.blocks()[number]
        text, folds = self.sets[split], self.folds(split)[start:stop]
        texts = text.read(np.arange(start, stop))
        probs = np.empty((len(texts), self.num_classes), dtype=np.float32)
        for model in np.unique(folds).tolist():
            rows = np.flatnonzero(folds == model)
            classifier = load_classifier(self.model(model), self.options.backend)
            for first, last in cut(len(rows), _CHUNK_SENTENCES):
                chunk = rows[first:last]
                probs[chunk] = classifier.predict([texts[row] for row in chunk])
        write_probs(output / _BLOCK_FILE, probs)

    def write_labels(self, teacher: Path) -> None:
        """Write the labels of all blocks to one file per domain and set."""
        for split, text in self.sets.items():
            numbers = [number for number, block in enumerate(self.blocks()) if block[0] == split]
            paths = [job_output(self.folder / _LABELS, number) / _BLOCK_FILE for number in numbers]
            labels = np.concatenate([open_labels(path, self.num_classes).raw for path in paths])
            for file, rows in zip(text.files, np.split(labels, text.bounds[1:-1]), strict=True):
                write_probs(label_path(teacher, file.parent.name, split), rows)


def train_and_label(
    teacher: Path, splits: Path, lang: str, options: Teacher, seed: int, engine: Engine
) -> dict[str, int]:
    """Train the classifiers, label all sets, and write ``DOMAIN/SPLIT.npy`` and ``model/``.

    Jobs finished in an interrupted run are reused. The output does not depend on the engine.

    Returns:
        The number of training sentences (``all``), and of those that the last model was trained on (``trained_on``).
    """
    domains = read_domain_names(splits / DOMAINS_FILE)
    sets = {}
    for split in SPLITS:
        files = tuple(splits.resolve() / domain / f"{split}.{lang}" for domain in domains)
        sets[split] = TextFiles(files, tuple(map(count_lines, files)))
    if options.base_text:
        text, base = sets["train"], base_path(teacher.resolve(), lang)
        sets["train"] = TextFiles((*text.files, base), (*text.counts, count_lines(base)))
    work = Labelling((teacher / JOBS_DIR).resolve(), sets, options, seed)
    _write_folds(work, [*domains, BASE_ROUTE])
    every, seen = sum(sets["train"].counts), len(work.training_rows(options.folds))
    if seen < every:
        said = f"trains on {seen:,} of {every:,} sentences, the same share of every domain (teacher.max_sentences)"
        print(f"teacher: {said}", file=sys.stderr, flush=True)
    # n-gram models train one per core. A network uses all cores or the device, so by default only one trains at a time.
    engine = engine if options.backend == "tfidf" else Engine(engine.workers or 1, engine.scheduler)
    run_jobs(work.fit, work.folder / _MODELS, options.folds + 1, engine, "teacher: train", unit="model")
    sizes = [stop - start for _, start, stop in work.blocks()]
    run_jobs(work.label, work.folder / _LABELS, len(sizes), engine, "teacher: label", sizes, unit="sentence")
    work.write_labels(teacher)
    final = work.model(options.folds)
    if final.exists():  # otherwise already moved by an interrupted run
        final.rename(teacher / MODEL_FOLDER)
    return {"all": every, "trained_on": seen}


def base_path(teacher: Path, lang: str) -> Path:
    """Return the path of the text of the class ``base``."""
    return teacher / BASE_ROUTE / f"train.{lang}"


def cut(count: int, size: int) -> list[tuple[int, int]]:
    """Return the start and end (exclusive) of each block of ``count`` sentences."""
    return [(start, min(start + size, count)) for start in range(0, count, size)]


def assign_folds(texts: Iterable[str], num_folds: int, seed: int) -> np.ndarray:
    """Return the fold of each sentence (N), derived from its normalised form, so that copies share a fold."""
    keys = (normalise_source(text) for text in texts)
    folds = (stable_hash(seed, "fold", key) % num_folds for key in keys)
    return np.fromiter(folds, dtype=np.min_scalar_type(num_folds))


def _write_folds(work: Labelling, domains: Sequence[str]) -> None:
    path, text, num_folds = work.folder / _FOLDS, work.sets["train"], work.options.folds
    if not path.exists():
        lines = (line for file in text.files for line in stream_lines(file))
        with atomic_write(path) as temporary:
            np.save(temporary, assign_folds(lines, num_folds, work.seed), allow_pickle=False)
    by_domain = np.split(work.folds("train"), text.bounds[1:-1])
    counts = np.array([np.bincount(folds, minlength=num_folds) for folds in by_domain])  # D×F
    seen = counts.sum(axis=1, keepdims=True) - counts  # sentences that the model of each fold is trained on
    for fold in range(num_folds):
        if not counts[:, fold].any() or not seen[:, fold].all():
            missing = domains[int(np.argmin(seen[:, fold]))]
            raise InputError(f"{missing}: has too few sentences for {num_folds} folds; lower teacher.folds or add text")


def label_file(teacher: Path, text: Path, output: Path) -> None:
    """Write P(class | sentence) of each line as float16, with columns in the order of ``teacher.json``, base last."""
    record, model = read_teacher_record(teacher), teacher / MODEL_FOLDER
    if not model.is_dir():
        raise InputError(f"{model}: not found; train the teacher again")
    classifier, count = load_classifier(model, record["backend"]), count_lines(text)
    lines = map(collapse, stream_lines(text))
    output.parent.mkdir(parents=True, exist_ok=True)
    with atomic_write(output) as temporary:
        shape = count, len(classes_of(record))
        rows = np.lib.format.open_memmap(temporary, "w+", DTYPE, shape)  # type: ignore[no-untyped-call]
        for start, stop in cut(count, _CHUNK_SENTENCES):
            rows[start:stop] = as_labels(classifier.predict(list(islice(lines, stop - start))))
        rows.flush()


# The teacher of an experiment


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
