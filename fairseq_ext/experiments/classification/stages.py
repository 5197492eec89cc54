"""Stages of the classification recipe: from text and labelled tables to classifiers and their report.

Each task has ``tasks/TASK`` (its splits as text) and ``data-bin/TASK`` (data of fairseq's ``sentence_prediction``),
both with ``task.json``. If the base is trained here, its data are in ``corpora``, ``splits``, ``subwords``, ``encoded``
and ``masked-lm``, one corpus of all domains. They exclude all lines of the tasks' validation and test sets.
``systems/RUN`` contains a training run.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

from fairseq_ext.base.fairseq_cli import as_arguments, option_of
from fairseq_ext.base.jobs import THIS_MACHINE, Engine
from fairseq_ext.base.processes import this_process
from fairseq_ext.base.stages import Stage
from fairseq_ext.base.steps import Step, versions
from fairseq_ext.classifiers.task_split import (
    FIRST,
    LABEL,
    SECOND,
    TASK_FILE,
    TaskFacts,
    held_out_texts,
    read_task_facts,
    set_path,
    write_task_splits,
)
from fairseq_ext.data.binarise import binarise_files
from fairseq_ext.experiments.classification.config import Classification
from fairseq_ext.experiments.classification.measure import comparison_steps, comparisons_file, measure_run
from fairseq_ext.experiments.classification.report import page
from fairseq_ext.experiments.config import Run
from fairseq_ext.experiments.language_models import (
    TextFolder,
    checkpoint_of,
    copy_files,
    encode_step,
    import_text_step,
    is_given,
    sentencepiece_step,
    split_step,
    text_files,
)
from fairseq_ext.experiments.metrics.comparison import read_comparisons
from fairseq_ext.experiments.metrics.records import Records
from fairseq_ext.experiments.metrics.render import Page
from fairseq_ext.experiments.recipe import Recipe
from fairseq_ext.experiments.train import train_step
from fairseq_ext.text.encoders import encode_texts, subword_files
from fairseq_ext.text.line_split import LanguageModelSplit, text_path
from fairseq_ext.text.split import SPLITS
from fairseq_ext.text.subwords import DICT_FILE
from fairseq_ext.text.text_files import stream_lines, write_lines

BASE_ARGUMENTS = ("--task", "masked_language_modeling", "--criterion", "masked_lm")
MASKED_LM_DIR = "masked-lm"
_ROLES = ("train", "valid")  # splits of the base model's text, which has no test set
_PIECES = ".pieces"  # temporary folder of encoded text
_SCHEDULER = "polynomial_decay"
_WARM_UP = 0.1  # share of the updates: Houlsby et al. (2019) §3.1


class ClassificationRecipe(Recipe[Classification]):
    """Classifiers on one encoder."""

    experiment_type = Classification
    page_version = 6

    def prepare(self, engine: Engine = THIS_MACHINE) -> list[Step]:
        """Return the preparation steps, in order. All write below ``work_dir``."""
        config, corpora = self.experiment, self.experiment.corpora
        names = list(text_files(corpora.folder)) if corpora else []
        return [
            *(_task_step(config, name) for name in config.tasks),
            *(_text_steps(config, corpora, engine) if corpora else []),
            _subword_step(config, names),
            *(_masked_lm_steps(config, names, engine) if corpora else []),
            *(_binarise_step(config, name) for name in config.tasks),
        ]

    def train(self, name: str) -> list[Step]:
        """Return the steps that train a system; none for a given checkpoint."""
        return [] if is_given(self.experiment, name) else super().train(name)

    def train_run(self, run: Run) -> Step:
        """Return the step that trains one run: of a base, or for a task."""
        config, is_base, options = self.experiment, run.domain is None, run.system.options
        inputs = [run.system.data or config.work_dir / MASKED_LM_DIR if is_base else config.task_data(str(run.domain))]
        arguments = [*(BASE_ARGUMENTS if is_base else ()), "--seed", str(run.seed), "--no-epoch-checkpoints"]
        if start := config.start_of(run):
            inputs.append(checkpoint_of(config, start))
            arguments += ["--finetune-from-model", str(inputs[-1])]
        return train_step(
            config,
            run,
            inputs,
            [*arguments, *as_arguments(options)],
            {"system": options, "seed": run.seed, "task": run.domain},
            foreseen=() if is_base else as_arguments(task_choices(str(run.domain), options)),
            derived=tuple if is_base else partial(task_arguments, inputs[0], str(run.domain), options),
        )

    def measure(self) -> list[Step]:
        """Return the steps that measure the runs trained for tasks: ``predictions/RUN``."""
        return [measure_run(self.experiment, run) for run in self.experiment.task_runs]

    def measuring_stages(self) -> list[Stage]:
        """Return the stages that measure the systems and compare them."""
        return [*super().measuring_stages(), Stage("analyse", partial(comparison_steps, self.experiment))]

    def page_files(self) -> Sequence[Path]:
        """Return the file of comparisons."""
        return [comparisons_file(self.experiment)]

    def page(self, records: Records) -> Page:
        """Make the page of the tables and figures of Houlsby et al. (2019)."""
        return page(self.experiment, records, read_comparisons(comparisons_file(self.experiment)))


RECIPE = ClassificationRecipe


# Data


def _task_step(config: Classification, name: str) -> Step:
    task, split = config.tasks[name], config.split
    # Metrics do not affect the data.
    columns = {"kind": task.kind, "columns": task.columns, "tables": list(task.tables)}
    shares = {"task_valid": split.task_valid, "task_test": split.task_test}
    most = {} if split.task_train is None else {"task_train": split.task_train}
    options = {**columns, **shares, **most, "name": name, "seed": config.seed}
    build = partial(write_task_splits, name=name, task=task, options=split, seed=config.seed)
    return Step(config.raw_task(name), list(task.tables.values()), options, build)


def _text_steps(config: Classification, corpora: TextFolder, engine: Engine) -> list[Step]:
    files, tasks = text_files(corpora.folder), [config.raw_task(name) for name in config.tasks]
    split = LanguageModelSplit(valid=config.split.valid, test=0, stretch=config.split.stretch)

    def tested() -> set[str]:
        return set(chain.from_iterable(map(held_out_texts, tasks)))

    return [
        import_text_step(config.work_dir, files, corpora.on_bad_utf8, engine),
        split_step(config.work_dir, files, split, config.seed, tasks, tested),
    ]


def _subword_step(config: Classification, names: Sequence[str]) -> Step:
    imported = config.subwords.imported
    if imported is None:
        return sentencepiece_step(config.work_dir, names, config.subwords, config.seed)
    files = [imported / name for name in subword_files(imported)]
    options = {"files": [file.name for file in files]}
    return Step(config.work_dir / "subwords", files, options, partial(copy_files, files))


def _masked_lm_steps(config: Classification, names: Sequence[str], engine: Engine) -> list[Step]:
    encoded, subwords = config.work_dir / "encoded", config.work_dir / "subwords"

    def lines(role: str) -> Iterator[str]:
        for name in names:
            yield from stream_lines(text_path(encoded, name, role))

    def build(folder: Path) -> str:
        for role in _ROLES:
            write_lines(folder / _PIECES / f"{role}.txt", lines(role))
        dictionary, files = subwords / DICT_FILE, [(f"{role}.txt", role) for role in _ROLES]
        unknown = binarise_files(folder, folder / _PIECES, [dictionary], files, engine)
        shutil.rmtree(folder / _PIECES)
        shutil.copyfile(dictionary, folder / DICT_FILE)
        return unknown

    return [
        encode_step(config.work_dir, [(name, role) for name in names for role in _ROLES], engine),
        Step(config.work_dir / MASKED_LM_DIR, [encoded, subwords], {"domains": list(names)}, build),
    ]


def _binarise_step(config: Classification, name: str) -> Step:
    texts, subwords = config.raw_task(name), config.work_dir / "subwords"
    options = {"with": versions("sentencepiece", "tokenizers")}
    build = partial(_binarise_task, texts=texts, subwords=subwords)
    return Step(config.task_data(name), [texts, subwords], options, build)


def _binarise_task(folder: Path, texts: Path, subwords: Path) -> None:
    """Binarise a task's sets to a data directory of fairseq's ``sentence_prediction``."""
    facts = read_task_facts(texts)
    pieces, dictionary, labels = folder / _PIECES, subwords / DICT_FILE, folder / LABEL / DICT_FILE

    def binarise(source: Path, dictionary: Path, parts: Sequence[str]) -> None:
        files = [(f"{part}/{role}.txt", f"{part}/{role}") for part in parts for role in SPLITS]
        binarise_files(folder, source, [dictionary], files, THIS_MACHINE)

    encode_texts(pieces, texts, subwords, [(part, role) for part in facts.inputs for role in SPLITS], THIS_MACHINE)
    binarise(pieces, dictionary, facts.inputs)
    shutil.rmtree(pieces)
    for part in facts.inputs:
        shutil.copyfile(dictionary, folder / part / DICT_FILE)
    if facts.labels:
        write_lines(labels, (f"{label} 1" for label in facts.labels))
        binarise(texts, labels, [LABEL])
    else:
        for role in SPLITS:
            write_lines(folder / LABEL / f"{role}.label", stream_lines(set_path(texts, LABEL, role)))
    shutil.copyfile(texts / TASK_FILE, folder / TASK_FILE)


# Training


def task_choices(name: str, chosen: Mapping[str, Any]) -> dict[str, Any]:
    """Return the training options of a task that do not depend on its data."""
    options = {
        "task": "task_prediction",
        "criterion": "sentence_prediction",
        "classification-head-name": name,
        "init-token": FIRST,
        "shorten-method": "truncate",
        # A larger multiple would omit the last sentences of an epoch and of each set.
        "required-batch-size-multiple": 1,
    }
    return options | ({"lr-scheduler": _SCHEDULER} if option_of(chosen, "lr-scheduler") in (None, _SCHEDULER) else {})


def task_arguments(data: Path, name: str, chosen: Mapping[str, Any]) -> list[str]:
    """Return the training options that depend on a task and the size of its data, as arguments."""
    facts = read_task_facts(data)
    options = task_choices(name, chosen) | {
        "num-classes": facts.num_classes,
        "regression-target": not facts.labels,
        "separator-token": SECOND if facts.num_inputs == 2 and not option_of(chosen, "token-types") else None,
    }
    if facts.labels:
        options |= {"best-checkpoint-metric": "accuracy", "maximize-best-checkpoint-metric": True}
    if "lr-scheduler" in options:
        updates = num_updates(facts, chosen)
        options |= {"total-num-update": updates, "warmup-updates": int(_WARM_UP * updates)}
    return as_arguments(options)


def num_updates(facts: TaskFacts, options: Mapping[str, Any], num_workers: int | None = None) -> int:
    """Return the number of updates of a training run."""
    workers = num_workers or _num_workers(options)
    per_update = int(option_of(options, "batch-size")) * int(option_of(options, "update-freq") or 1) * workers
    per_epoch = -(-facts.counts["train"] // per_update)
    epochs, most = option_of(options, "max-epoch"), option_of(options, "max-update")
    limits = [int(epochs) * per_epoch] if epochs is not None else []
    return min([*limits, int(most)] if most is not None else limits)


def _num_workers(options: Mapping[str, Any]) -> int:
    """Return the number of processes that fairseq starts or is started in."""
    import torch

    started, num_gpus = this_process().count, torch.cuda.device_count()
    if started == 1 and (option_of(options, "cpu") or not num_gpus):
        return int(option_of(options, "cpu-processes") or 1)
    return started if started > 1 else num_gpus
