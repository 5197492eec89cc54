"""Classifiers and their labels as tasks: training one is a task, labelling a block of sentences with it another.

::

    .tasks/folds.npy                 which model must not see a sentence of the training text
    .tasks/models/000000/model/      trained without fold 0; the last on all text
    .tasks/labels/000000/labels.npy  a block, K×D
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import compress, islice
from pathlib import Path
from typing import Any

import numpy as np

from fairseq_ext.classifiers.classifier import MODEL_FOLDER, Classifier, load_classifier, make_classifier
from fairseq_ext.classifiers.options import Teacher
from fairseq_ext.corpora.split import HELD_OUT, SPLITS, normalise_source, stable_hash
from fairseq_ext.corpora.text_files import collapse, count_lines, stream_lines
from fairseq_ext.data.teacher_labels import DTYPE, as_labels, label_path, open_labels, read_teacher_record, write_probs
from fairseq_ext.engine.steps import atomic_write
from fairseq_ext.engine.tasks import TASKS_DIR, Engine, remove_tasks, run_tasks, task_output
from fairseq_ext.inputs.array_file import map_array
from fairseq_ext.inputs.domain_names import DOMAINS_FILE, read_domain_names
from fairseq_ext.inputs.errors import InputError

_FOLDS, _MODELS, _LABELS, _BLOCK_FILE = "folds.npy", "models", "labels", "labels.npy"
_BLOCK_SENTENCES = 200_000  # that a task labels; it reads the text up to its last
_CHUNK_SENTENCES = 20_000  # that a classifier sees at once


@dataclass(frozen=True)
class TextFiles:
    """The sentences of one set, a file a domain and one after the other; rows are counted through all of them."""

    files: tuple[Path, ...]
    counts: tuple[int, ...]

    @property
    def bounds(self) -> np.ndarray:
        """The first row of each file, and the number of all rows."""
        return np.cumsum([0, *self.counts])

    def domain_of(self, rows: np.ndarray) -> np.ndarray:
        """The number of the file that each row is in."""
        return np.searchsorted(self.bounds, rows, side="right") - 1

    def read(self, rows: np.ndarray) -> list[str]:
        """The sentences of some rows, which ascend."""
        texts: list[str] = []
        for file, start, stop in zip(self.files, self.bounds[:-1], self.bounds[1:], strict=True):
            here = rows[slice(*np.searchsorted(rows, (start, stop)))] - start
            if len(here):
                is_wanted = np.zeros(here[-1] + 1, dtype=bool)
                is_wanted[here] = True
                texts += map(collapse, compress(stream_lines(file), is_wanted))
        return texts


@dataclass(frozen=True)
class Block:
    """Sentences that one model labels: its own fold, the last model the other sets.

    Attributes:
        rows: the first and the one after the last, among those of the set that the model labels.
    """

    model: int
    split: str
    rows: tuple[int, int]


@dataclass(frozen=True)
class Labelling:
    """Texts, and how classifiers are trained on them; what tasks are made of.

    Attributes:
        folder: where models and labels go, absolute.
        sets: train, valid and test.
    """

    folder: Path
    sets: dict[str, TextFiles] = field(hash=False)
    options: Teacher
    seed: int

    @property
    def num_domains(self) -> int:
        return len(self.sets["train"].files)

    def model(self, number: int) -> Path:
        """Where a trained model is: one for each fold, which did not see it, and one that saw all."""
        return task_output(self.folder / _MODELS, number) / MODEL_FOLDER

    def folds(self) -> np.ndarray:
        return map_array(self.folder / _FOLDS, "run the same command again")

    def training_rows(self, number: int) -> np.ndarray:
        """The sentences that a model is trained on: all of other folds, or a sample of each domain."""
        rows = np.flatnonzero(self.folds() != number)
        if len(rows) <= self.options.max_sentences:
            return rows
        rng, share = np.random.default_rng([self.seed, number]), self.options.max_sentences / len(rows)
        by_domain = np.split(rows, np.searchsorted(rows, self.sets["train"].bounds[1:-1]))
        return np.concatenate([_draw(each, max(1, int(len(each) * share)), rng) for each in by_domain])

    def fit(self, number: int, output: Path) -> None:
        """The task that trains a model."""
        rows, text = self.training_rows(number), self.sets["train"]
        classifier = make_classifier(self.options, self.seed)
        classifier.fit(text.read(rows), text.domain_of(rows), self.num_domains)
        classifier.save(output / MODEL_FOLDER)

    def blocks(self) -> list[Block]:
        """All that is to be labelled, model by model."""
        folds = self.options.folds
        sizes = np.bincount(self.folds(), minlength=folds).tolist()
        parts = [("train", fold, size) for fold, size in enumerate(sizes)]
        parts += [(split, folds, int(self.sets[split].bounds[-1])) for split in HELD_OUT]
        return [Block(model, split, rows) for split, model, size in parts for rows in cut(size, _BLOCK_SENTENCES)]

    def rows_of(self, block: Block) -> np.ndarray:
        """Which rows of its set a block has."""
        if block.split != "train":
            return np.arange(*block.rows)
        return np.flatnonzero(self.folds() == block.model)[slice(*block.rows)]

    def label(self, number: int, output: Path) -> None:
        """The task that labels a block."""
        block = self.blocks()[number]
        texts = self.sets[block.split].read(self.rows_of(block))
        classifier = _loaded(self.model(block.model), self.options.backend)
        probs = [classifier.predict(texts[slice(*chunk)]) for chunk in cut(len(texts), _CHUNK_SENTENCES)]
        write_probs(output / _BLOCK_FILE, np.concatenate(probs))

    def _read_block(self, number: int) -> np.ndarray:
        """K×D."""
        return open_labels(task_output(self.folder / _LABELS, number) / _BLOCK_FILE, self.num_domains).raw

    def write_labels(self, teacher: Path) -> None:
        """Put the blocks' rows where they belong, a file for each domain and set."""
        blocks = self.blocks()
        for split in SPLITS:
            text = self.sets[split]
            found = [(self.rows_of(block), number) for number, block in enumerate(blocks) if block.split == split]
            for file, start, stop in zip(text.files, text.bounds[:-1], text.bounds[1:], strict=True):
                here = [slice(*np.searchsorted(rows, (start, stop))) for rows, _ in found]
                parts = (
                    (rows[part] - start, self._read_block(number)[part])
                    for (rows, number), part in zip(found, here, strict=True)
                )
                shape = int(stop - start), self.num_domains
                write_rows(label_path(teacher, file.parent.name, split), shape, parts)


def train_and_label(
    teacher: Path, splits: Path, lang: str, options: Teacher, seed: int, engine: Engine
) -> dict[str, int]:
    """Train the classifiers, label all sets, and write ``DOMAIN/SPLIT.npy`` and ``model/``.

    What an interrupted run finished is taken over; who runs a task changes nothing in what it writes. Returns how many
    sentences there are to train on, ``all``, and how many the last model saw, ``trained_on``.
    """
    domains = read_domain_names(splits / DOMAINS_FILE)
    sets = {split: _find_text(splits.resolve(), domains, split, lang) for split in SPLITS}
    work = Labelling((teacher / TASKS_DIR).resolve(), sets, options, seed)
    _write_folds(work, domains)
    every, seen = sum(sets["train"].counts), len(work.training_rows(options.folds))
    if seen < every:
        said = f"trains on {seen:,} of {every:,} sentences, the same share of every domain (teacher.max_sentences)"
        print(f"teacher: {said}", file=sys.stderr, flush=True)
    # Of n-grams one model a core; a network takes all cores, or the device, for itself unless more are asked for.
    engine = engine if options.backend == "tfidf" else Engine(engine.workers or 1, engine.scheduler)
    run_tasks(work.fit, work.folder / _MODELS, options.folds + 1, engine, "teacher: train", unit="model")
    blocks = work.blocks()
    sizes = [block.rows[1] - block.rows[0] for block in blocks]
    run_tasks(work.label, work.folder / _LABELS, len(blocks), engine, "teacher: label", sizes, unit="sentence")
    work.write_labels(teacher)
    final = work.model(options.folds)
    if final.exists():  # else moved by a run that was killed since
        final.rename(teacher / MODEL_FOLDER)
    return {"all": every, "trained_on": seen}


def clear_tasks(teacher: Path) -> None:
    """Delete what :func:`train_and_label` worked with; from then on it would begin anew."""
    remove_tasks(teacher / TASKS_DIR)


def cut(count: int, size: int) -> list[tuple[int, int]]:
    """The blocks of so many sentences: the first of each, and the one after its last."""
    return [(start, min(start + size, count)) for start in range(0, count, size)]


def write_rows(path: Path, shape: tuple[int, int], parts: Iterable[tuple[Any, np.ndarray]]) -> None:
    """Write a file of N×D labels part by part: which rows, and their labels."""
    with atomic_write(path) as temporary:
        rows = np.lib.format.open_memmap(temporary, "w+", DTYPE, shape)
        for where, labels in parts:
            rows[where] = labels
        rows.flush()


def assign_folds(texts: Iterable[str], num_folds: int, seed: int) -> np.ndarray:
    """Number each sentence's fold (N), by its normalised form, so that copies share a fold."""
    keys = (normalise_source(text) for text in texts)
    folds = (stable_hash(seed, "fold", key) % num_folds for key in keys)
    return np.fromiter(folds, dtype=np.min_scalar_type(num_folds))


def _find_text(splits: Path, domains: Sequence[str], split: str, lang: str) -> TextFiles:
    files = tuple(splits / domain / f"{split}.{lang}" for domain in domains)
    return TextFiles(files, tuple(map(count_lines, files)))


def _write_folds(work: Labelling, domains: Sequence[str]) -> None:
    path, text, num_folds = work.folder / _FOLDS, work.sets["train"], work.options.folds
    if not path.exists():
        lines = (line for file in text.files for line in stream_lines(file))
        with atomic_write(path) as temporary:
            np.save(temporary, assign_folds(lines, num_folds, work.seed), allow_pickle=False)
    by_domain = np.split(work.folds(), text.bounds[1:-1])
    counts = np.array([np.bincount(folds, minlength=num_folds) for folds in by_domain])  # D×F
    seen = counts.sum(axis=1, keepdims=True) - counts  # by the model of each fold
    for fold in range(num_folds):
        if not counts[:, fold].any() or not seen[:, fold].all():
            missing = domains[int(np.argmin(seen[:, fold]))]
            raise InputError(f"{missing}: too few sentences for {num_folds} folds; lower teacher.folds or add text")


def _draw(rows: np.ndarray, count: int, rng: np.random.Generator) -> np.ndarray:
    """So many of some rows, in their order."""
    return np.sort(rng.choice(rows, min(count, len(rows)), replace=False, shuffle=False))


@lru_cache(maxsize=1)
def _loaded(model: Path, backend: str) -> Classifier:
    return load_classifier(model, backend)


def label_file(teacher: Path, text: Path, output: Path) -> None:
    """Write P(domain | sentence) of every line as float16 N×D, columns as in ``teacher.json``."""
    record, model = read_teacher_record(teacher), teacher / MODEL_FOLDER
    if not model.is_dir():
        raise InputError(f"{model}: not found; train the teacher again")
    classifier, count = load_classifier(model, record["backend"]), count_lines(text)
    lines = map(collapse, stream_lines(text))
    parts = (
        (slice(start, stop), as_labels(classifier.predict(list(islice(lines, stop - start)))))
        for start, stop in cut(count, _CHUNK_SENTENCES)
    )
    output.parent.mkdir(parents=True, exist_ok=True)
    write_rows(output, (count, len(record["domains"])), parts)
