"""From text and labelled tables to the data of a base model and of classifiers, as steps.

For every task there are ``tasks/TASK`` (its sets as text) and ``data-bin/TASK`` (fairseq's layout for its task
``sentence_prediction``), both with ``task.json``. For a base model of our own there are ``corpora``, ``splits``,
``subwords``, ``encoded`` and ``masked-lm``, one corpus of all domains for the base's task. It holds no
line that a task is validated or tested on.
"""

from __future__ import annotations

import dataclasses
import shutil
from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path

from fairseq_ext.classifiers.binarise import binarise_task
from fairseq_ext.classifiers.task_split import ClassificationTask, held_out_texts, write_task_splits
from fairseq_ext.corpora.text_files import stream_lines, write_lines
from fairseq_ext.engine.steps import Step, versions
from fairseq_ext.engine.tasks import Engine
from fairseq_ext.experiments.classification.config import BaseText, ClassificationExperiment
from fairseq_ext.recipes.language_models import import_text_step, sentencepiece_step, text_files
from fairseq_ext.text.binarise import binarise_files
from fairseq_ext.text.encoders import encode_texts, subword_files
from fairseq_ext.text.line_split import LanguageModelSplit, text_path, write_text_splits
from fairseq_ext.text.split import SPLITS
from fairseq_ext.text.subwords import DICT_FILE

MASKED_LM_DIR = "masked-lm"
_ROLES = ("train", "valid")  # of the base model's text: it is only a start, so nothing is reported of it
_THIS_MACHINE = Engine()
# For tasks: to start processes, which import fairseq, takes longer than to binarise their few examples.
_THIS_PROCESS = Engine(workers=1)
_PIECES = ".pieces"  # encoded text, while it is binarised


def raw_task(config: ClassificationExperiment, task: str) -> Path:
    """Where a task's sets lie as text."""
    return config.work_dir / "tasks" / task


def task_data(config: ClassificationExperiment, task: str) -> Path:
    """Where a task's sets lie as numbers: a data directory of fairseq's ``sentence_prediction``."""
    return config.work_dir / "data-bin" / task


def preparation_steps(config: ClassificationExperiment, engine: Engine = _THIS_MACHINE) -> list[Step]:
    """The steps of the data preparation, in order; all write below ``config.work_dir``.

    Raises:
        InputError: if a folder holds no text or subwords.
    """
    corpora, imported = config.corpora, config.subwords.imported
    names = list(text_files(Path(corpora.folder))) if corpora else []
    text = _text_steps(config, corpora, engine) if corpora else []
    subwords = _imported_step(config, Path(imported)) if imported is not None else _trained_step(config, names)
    base = [_encode_step(config, names, engine), _masked_lm_step(config, names, engine)] if corpora else []
    return [
        *(_task_step(config, task) for task in config.tasks.values()),
        *text,
        subwords,
        *base,
        *(_binarise_step(config, name) for name in config.tasks),
    ]


def _task_step(config: ClassificationExperiment, task: ClassificationTask) -> Step:
    # What it is measured by makes no difference to its data.
    columns = {"kind": task.kind, "columns": dataclasses.asdict(task.columns), "tables": list(task.tables)}
    shares = {"task_valid": config.split.task_valid, "task_test": config.split.task_test}
    if config.split.task_train is not None:  # else the data are those of earlier versions
        shares["task_train"] = config.split.task_train
    return Step(
        raw_task(config, task.name),
        inputs=list(task.tables.values()),
        options={**columns, **shares, "name": task.name, "seed": config.seed},
        build=lambda folder: write_task_splits(folder, task, options=config.split, seed=config.seed),
    )


def _text_steps(config: ClassificationExperiment, corpora: BaseText, engine: Engine) -> list[Step]:
    files = text_files(Path(corpora.folder))
    texts = {name: config.work_dir / "corpora" / f"{name}.txt" for name in files}
    split = LanguageModelSplit(valid=config.split.valid, test=0, stretch=config.split.stretch)
    tasks = [raw_task(config, name) for name in config.tasks]

    def build(folder: Path) -> None:
        elsewhere = set(chain.from_iterable(map(held_out_texts, tasks)))
        write_text_splits(folder, texts, options=split, seed=config.seed, elsewhere=elsewhere)

    return [
        import_text_step(config.work_dir, files, corpora.on_bad_utf8, engine),
        Step(
            config.work_dir / "splits",
            inputs=[*texts.values(), *tasks],
            options={**split.model_dump(), "seed": config.seed, "domains": list(texts)},
            build=build,
        ),
    ]


def _trained_step(config: ClassificationExperiment, names: Sequence[str]) -> Step:
    texts = [text_path(config.work_dir / "splits", name, "train") for name in names]
    return sentencepiece_step(config.work_dir / "subwords", texts, config.subwords, config.seed)


def _imported_step(config: ClassificationExperiment, imported: Path) -> Step:
    names = subword_files(imported)

    def build(folder: Path) -> None:
        for name in names:
            shutil.copyfile(imported / name, folder / name)

    return Step(config.work_dir / "subwords", [imported / name for name in names], {"files": list(names)}, build)


def _encode_step(config: ClassificationExperiment, names: Sequence[str], engine: Engine) -> Step:
    splits, subwords = config.work_dir / "splits", config.work_dir / "subwords"
    files = [(name, role) for name in names for role in _ROLES]
    return Step(
        config.work_dir / "encoded",
        inputs=[splits, subwords],
        options={"with": versions("sentencepiece", "tokenizers")},
        build=lambda folder: encode_texts(folder, splits, subwords, files, engine),
        resumable=True,
    )


def _masked_lm_step(config: ClassificationExperiment, names: Sequence[str], engine: Engine) -> Step:
    encoded, subwords = config.work_dir / "encoded", config.work_dir / "subwords"

    def lines(role: str) -> Iterator[str]:
        for name in names:
            yield from stream_lines(text_path(encoded, name, role))

    def build(folder: Path) -> str:
        for role in _ROLES:
            write_lines(folder / _PIECES / f"{role}.txt", lines(role))
        dictionary, files = subwords / DICT_FILE, [(f"{role}.txt", role) for role in _ROLES]
        unknown = binarise_files(folder, folder / _PIECES, dictionary, files, engine)
        shutil.rmtree(folder / _PIECES)
        shutil.copyfile(dictionary, folder / DICT_FILE)
        return unknown

    return Step(config.work_dir / MASKED_LM_DIR, [encoded, subwords], {"domains": list(names)}, build)


def _binarise_step(config: ClassificationExperiment, name: str) -> Step:
    texts, subwords = raw_task(config, name), config.work_dir / "subwords"
    return Step(
        task_data(config, name),
        inputs=[texts, subwords],
        options={"with": versions("sentencepiece", "tokenizers")},
        build=lambda folder: binarise_task(folder, texts, subwords, SPLITS),
    )
